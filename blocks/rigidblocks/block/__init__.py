"""Blocks: ports, functions, flat memory layout, evaluators, integration methods and steppers."""
