"""Checks the project's prose against the section "Words" of CONTRIBUTING.md.

``python -m prose`` reads the Markdown pages and the comments, docstrings and messages of the sources.
:mod:`prose.words` lists what to avoid and what to say instead, :mod:`prose.pages` has the rules for Markdown, and
:mod:`prose.sources` finds the text in Python and shell files.
"""
