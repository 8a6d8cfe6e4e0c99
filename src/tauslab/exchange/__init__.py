"""Standards for simulation experiments: SED-ML, PEtab, and the actions of BioNetGen."""
