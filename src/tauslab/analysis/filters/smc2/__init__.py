"""SMC²: posteriors of parameters that follow the data row by row."""
