"""What a block is, its flat memory, the evaluation of its functions on it, and its step."""
