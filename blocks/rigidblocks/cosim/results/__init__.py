"""Recording of runs, and result files."""
