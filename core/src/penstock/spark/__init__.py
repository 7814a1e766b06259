"""The only package that knows PySpark's data source interface: it turns a Source or a Sink into one."""

from penstock.spark._enrich import enrich, enrich_async
from penstock.spark._registration import Registration, register

__all__ = ["Registration", "enrich", "enrich_async", "register"]
