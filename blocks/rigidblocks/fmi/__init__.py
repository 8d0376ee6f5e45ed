"""FMU export of blocks, systems and scripts; SSP and OSP system structure import."""
