"""Standards for simulation experiments: SED-ML and PEtab."""
