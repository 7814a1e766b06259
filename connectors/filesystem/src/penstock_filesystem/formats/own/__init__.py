"""Formats of others: found by entry points, or named by their class."""

from penstock_filesystem.formats.own._contract import FileEncoder, FileFormat, FileReader, FileWriter
from penstock_filesystem.formats.own._find import find_format, installed_formats

__all__ = ["FileEncoder", "FileFormat", "FileReader", "FileWriter", "find_format", "installed_formats"]
