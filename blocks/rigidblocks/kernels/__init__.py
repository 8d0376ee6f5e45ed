"""C code of blocks and algorithms: tracing, printing and compilation."""
