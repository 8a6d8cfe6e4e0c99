"""What every package uses: errors, sealed files, names of options, arrays, texts and HTML."""
