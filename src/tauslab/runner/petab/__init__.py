"""PEtab problems: parameters of a model, and data to estimate them from.

`tables` reads a problem by the package petab, `formulas` evaluates observables and noise,
`courses` runs conditions as one ODE ensemble, `likelihood` has the densities of noise and priors,
`problem` the objective.
"""
