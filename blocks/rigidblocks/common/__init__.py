"""Functions for all subpackages: documentation links, optional imports, display and charts."""
