"""Numbers, spatial and planar vectors, and what they are made with (RBDA chapter 2, appendix A):
NumPy alone.
"""
