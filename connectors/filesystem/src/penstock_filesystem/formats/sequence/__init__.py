"""Hadoop's sequence files."""
