"""The version of the core, the one place where it is written in code."""

__version__ = "0.1.0"
