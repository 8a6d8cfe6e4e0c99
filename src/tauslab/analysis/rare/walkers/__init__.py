"""The weighted ensemble: walkers with weights, split where few come and merged where many are.

`weighted` holds the rounds, `bins` says who is near whom, `resampling` splits and merges,
`steady` tests whether the flux into the target is at rest.
"""
