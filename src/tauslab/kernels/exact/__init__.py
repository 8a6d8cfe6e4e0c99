"""PURPOSE."""
