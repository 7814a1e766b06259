"""Rows enriched by what other systems know of them: lookups in a table by key, and calls of any service.

``penstock.enrich(rows, lookup)`` runs a connector's :class:`TableLookup` on a DataFrame,
``penstock.enrich_async(rows, function, returns)`` an :class:`AsyncFunction`, a coroutine function, or a blocking one.
"""

from penstock.enrichment._enricher import AsyncSpec, Enricher
from penstock.enrichment._function import AsyncFunction, as_function
from penstock.enrichment._lookup import TableLookup
from penstock.enrichment._settings import CallSettings, settings_of

__all__ = ["AsyncFunction", "AsyncSpec", "CallSettings", "Enricher", "TableLookup", "as_function", "settings_of"]
