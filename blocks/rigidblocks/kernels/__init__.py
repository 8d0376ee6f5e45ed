"""Blocks and algorithms as C: what is traced, printed and compiled for them."""
