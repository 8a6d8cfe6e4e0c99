"""Jobs that run ensembles again and again, or compute without them; rooms stand side by side."""
