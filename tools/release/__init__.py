"""Builds what a release consists of, and releases it. Run by ``scripts/release``, in an environment of its own."""
