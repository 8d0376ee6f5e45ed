"""Tracing of NumPy functions to expression graphs, and generation and compilation of C code."""
