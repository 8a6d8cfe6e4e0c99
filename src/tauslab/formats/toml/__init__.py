"""Models in TOML: networks and lattices."""
