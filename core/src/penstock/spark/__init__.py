"""The only package that knows PySpark's data source interface: it turns a Source or a Sink into one."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Those with "as" are public in penstock itself.
    from penstock.spark._data_source import PenstockDataSource
    from penstock.spark._enrich import enrich as enrich
    from penstock.spark._enrich import enrich_async as enrich_async
    from penstock.spark._foreach_batch import batch_writer as batch_writer
    from penstock.spark._metrics import CountsParam
    from penstock.spark._read import BatchReader, StreamReader
    from penstock.spark._registration import Registration
    from penstock.spark._registration import register as register
    from penstock.spark._replay import replay as replay
    from penstock.spark._session_metrics import SessionMetrics
    from penstock.spark._session_metrics import export_metrics as export_metrics
    from penstock.spark._session_metrics import serve_metrics as serve_metrics
    from penstock.spark._sink_group import SinkGroup as SinkGroup

__all__ = [
    "BatchReader",
    "CountsParam",
    "PenstockDataSource",
    "Registration",
    "SessionMetrics",
    "StreamReader",
]

#: Loaded on first use: every query starts processes that read or write, and need few of these.
_MODULES = {
    "BatchReader": "_read",
    "CountsParam": "_metrics",
    "PenstockDataSource": "_data_source",
    "Registration": "_registration",
    "SessionMetrics": "_session_metrics",
    "SinkGroup": "_sink_group",
    "StreamReader": "_read",
    "batch_writer": "_foreach_batch",
    "enrich": "_enrich",
    "enrich_async": "_enrich",
    "export_metrics": "_session_metrics",
    "register": "_registration",
    "replay": "_replay",
    "serve_metrics": "_session_metrics",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        try:
            return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] != "pyspark":
                raise
            raise type(error)(_what_is_missing(error), name="pyspark") from None
    raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")


def _what_is_missing(error: ImportError) -> str:
    """Returns what to do where PySpark is missing, or is an older one, as platforms may bring it."""
    if error.name == "pyspark" and isinstance(error, ModuleNotFoundError):
        return "penstock needs PySpark: run the Python of your Spark platform, or pip install 'penstock[spark]'"
    from pyspark import __version__

    reason = str(error).partition(" (")[0]
    return f"penstock needs PySpark 4.2 or newer, and this is {__version__}: choose a newer runtime ({reason})"
