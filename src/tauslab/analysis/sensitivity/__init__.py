"""Derivatives of means by parameters: what is changed by how much, sums over pairs, the result.

`steps` chooses the two sides of a difference, `outputs` what is recorded, `finite` runs pairs of
trajectories, `score` single ones with likelihood ratios, `run` is the whole job,
`result` holds values and standard errors; `expectation` is a function for fits.
"""
