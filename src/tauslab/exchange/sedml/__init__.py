"""Simulation experiments in SED-ML, in COMBINE archives (.omex).

`archive` unpacks, `document` reads SED-ML by python-libsedml, `kisao` maps algorithms to methods,
`execute` runs tasks, `reports` computes and writes what the experiment asks for. What cannot be
honoured is refused by name. `biosimulators` runs what can be run, and logs the rest.
"""
