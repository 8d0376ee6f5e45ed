"""Import and export of systems in the System Structure and Parameterization (SSP) format."""
