"""From a NumPy function to its expression graph, and from that to C: knows neither robot nor
block.
"""
