"""Finds logic that is written twice in the core and the connectors, also where its names differ.

Two runs of statements are alike if their syntax trees have one shape and each name of the one stands for one name of
the other. Runs that differ in nothing but layout are short copies; where names, texts or numbers differ, it takes more
to be a copy. ``explained.json`` names the places that share a shape for a reason. ``python -m repeated`` is the
command.
"""
