"""FMUs: Python and native ones made of blocks, and any FMU as a block."""
