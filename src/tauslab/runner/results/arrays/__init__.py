"""Files that hold arrays and settings alone: of rare events, and of filters."""
