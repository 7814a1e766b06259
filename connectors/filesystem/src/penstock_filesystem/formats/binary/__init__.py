"""Whole files as rows."""
