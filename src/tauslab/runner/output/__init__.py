"""Writing and reading result files: layout, writers for one rank, many ranks and memory."""
