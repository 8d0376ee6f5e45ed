"""Expression graphs of NumPy functions, and C code generation; independent of robots and blocks."""
