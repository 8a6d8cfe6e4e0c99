"""The weighted ensemble: walkers with weights, split where few come and merged where many are.

`weighted` holds the rounds and tests whether the flux into the target is stationary, `bins` groups
walkers, splits and merges them.
"""
