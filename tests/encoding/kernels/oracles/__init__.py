"""Reference loops: what kernels are compared with, and what runs where there is no compiler.

A module for each technique and a function for each loop, with the arguments of its front in
`lance_ops.encoding.kernels`, whose docstrings say what these are. Plain numpy, except for LZ4, whose
kernel is compiled from the loop here.
"""
