"""The only package that knows PySpark's data source interface: it turns a Source or a Sink into one."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark._enrich import enrich, enrich_async
    from penstock.spark._registration import Registration, register

__all__ = ["Registration", "enrich", "enrich_async", "register"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: every query starts processes that read or write, and need none of these.
    if name in ("register", "Registration"):
        from penstock.spark import _registration

        return getattr(_registration, name)
    if name in ("enrich", "enrich_async"):
        from penstock.spark import _enrich

        return getattr(_enrich, name)
    raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")
