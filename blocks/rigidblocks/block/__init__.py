"""Blocks with ports and functions, their memory layout, integration methods and steppers."""
