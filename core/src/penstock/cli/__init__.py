"""The ``penstock`` command.

===================== ================================================================================
``run PIPELINE``      runs a pipeline file (its form: :mod:`penstock.cli._pipeline`) and shows how it goes
``list``              the installed connectors and whether they fit this core
``describe NAME``     everything that can be set on a connector
``doctor``            what is wrong with this installation, and how to fix it
``inspect CHECKPOINT``  what a checkpoint holds, in words
``finish CHECKPOINT`` publishes what a stopped query has left open
``new KIND NAME``     writes a package to begin a connector from
``dev up NAME``       starts a server to try a connector with; ``dev down NAME``, ``dev status``
===================== ================================================================================

Exit codes: 0 fine, 1 something failed or is wrong, 2 a mistake in what was given, 128 + n stopped by signal n.
Only ``run`` starts Spark.
"""

from penstock.cli._app import app, main

__all__ = ["app", "main"]
