"""Base of every package: errors, sealed files, names of options, arrays, texts and HTML."""
