"""How the test suite is run: two tiers, shared servers, two busy processes, and a report of where the time went.

Everything here is loaded by the repository's ``conftest.py``; ``scripts/test`` is the way in.
"""
