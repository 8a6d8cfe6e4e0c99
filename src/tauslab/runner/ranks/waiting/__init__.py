"""What a user sees who waits: that a compiler runs."""
