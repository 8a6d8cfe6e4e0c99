"""The job from the command line to the result file."""
