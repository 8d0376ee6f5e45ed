"""Systems in files of the standard System Structure and Parameterization (SSP)."""
