"""Reference loops: plain Python that kernels are compiled from, and that runs where there is no compiler."""
