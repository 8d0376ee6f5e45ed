"""Spatial and planar vector algebra, and scalar functions (RBDA chapter 2, appendix A).

The package depends only on NumPy.
"""
