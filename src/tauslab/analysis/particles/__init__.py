"""An ensemble as an object: particles on the device that are advanced, weighted and resampled.

`motions` move them with the engines of runs, `weights` sums and chooses on the host in one order,
`ensemble` is what users hold, `observing` and `filtering` compare it with data.
"""
