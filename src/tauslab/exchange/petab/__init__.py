"""PEtab problems: parameters of a model, and data to estimate them from.

`tables` reads a problem by the package petab, `formulas` evaluates observables and noise,
`courses` runs conditions as one ODE ensemble, `likelihood` has the densities of noise and priors,
`stochastic` runs a particle filter for each course, `problem` has the objective.
"""
