"""Oracles: what compiled loops are compared with, in plain numpy.

A module for each technique and a function for each loop, with the arguments of the function in
`lance_ops.encoding.kernels`, whose docstrings say what these are.
"""
