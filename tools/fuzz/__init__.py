"""Hostile bytes: what comes from servers and stored files, mutated, must end in values or in clear errors.

``registry.py`` lists every place where bytes from outside become objects. ``scripts/soak fuzz`` runs it for as long as
you like, ``tools/tests/test_fuzz.py`` a corpus of it in every test run.
"""
