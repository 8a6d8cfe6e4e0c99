"""Derivatives of means by parameters: two sides of a difference, sums over pairs, the result.

`steps` chooses the sides and outputs, `estimators` runs pairs of trajectories or single ones with
likelihood ratios, `run` is the whole job, `result` holds values and standard errors; `expectation`
is a function for fits.
"""
