"""What a `Result` offers to people at a notebook: how it is shown, samples by name, saving."""
