"""How a job is cut into pieces: pure integers."""
