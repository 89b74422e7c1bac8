"""Typed fronts of the kernels: what everybody calls, and the only place where compiled loops have no types.

A module for each technique, named as the compiled one; a function for each of its loops. It runs the
compiled loop where there is a compiler, and the reference (`lance_ops.encoding.reference`) where not.
Techniques without a reference have a function `available`, which has to be asked first.

Arrays are contiguous, in the byte order of the machine, and aligned unless a front says otherwise. Nothing
here checks a bound: what a front's docstring asks for, its caller answers for.
"""
