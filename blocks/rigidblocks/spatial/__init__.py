"""Scalars, spatial and planar vectors and their operations (RBDA chapter 2, appendix A).

The package depends only on NumPy.
"""
