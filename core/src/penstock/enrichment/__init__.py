"""Rows enriched by what another system knows of them: look-ups in a table, by key.

A connector subclasses :class:`TableLookup`; ``penstock.enrich(rows, lookup)`` runs it on a DataFrame.
"""

from penstock.enrichment._lookup import TableLookup

__all__ = ["TableLookup"]
