"""What a robot is: its tree of joints and bodies, its loops, its shapes, and its configurations
(RBDA chapter 4).
"""
