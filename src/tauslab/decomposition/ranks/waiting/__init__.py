"""What is seen by a user who waits, for a compiler or for a rank; how ranks wait for each other."""
