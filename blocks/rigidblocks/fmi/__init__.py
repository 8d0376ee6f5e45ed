"""FMU export of blocks, systems and scripts, and import of SSP and OSP system structures."""
