"""JSON files: an object per line."""

from penstock_filesystem.formats.json._dialect import JsonReadDialect

__all__ = ["JsonReadDialect"]
