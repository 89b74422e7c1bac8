"""Table conformance: scenes of two writers that any implementation of Lance tables can be asked to play.

`python -m lance_ops.testing.table` plays them with lance_ops, and with any other implementation through an
adapter. It needs no pytest.
"""
