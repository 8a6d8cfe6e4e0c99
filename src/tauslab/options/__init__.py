"""Options of users, checked: ensembles, lattices, networks of tables, sweeps, priors.

Each is a frozen dataclass; a wrong value is a `ConfigError`.
"""
