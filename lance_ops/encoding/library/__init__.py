"""Loop library: the kernels compiled ahead of time into one shared library that needs no compiler to run.

`build` makes it from the sources of the kernels with numba, llvmlite and a C compiler: `emit` compiles the
loops for one processor type, `wrappers` writes their C interface. `load` opens it with ctypes. The library
carries a digest of the sources that it was made of, and another one than that of the sources at hand is not
used.
"""
