"""What a network says that is likely not meant."""
