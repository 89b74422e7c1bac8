"""The version of this package, for a checkout as for an installation."""

__version__ = "0.1.0"
