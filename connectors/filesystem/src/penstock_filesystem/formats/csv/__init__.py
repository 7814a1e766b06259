"""CSV files, and the dialect in which they are read and written."""

from penstock_filesystem.formats.csv._dialect import CsvDialect, CsvReadDialect, CsvWriteDialect

__all__ = ["CsvDialect", "CsvReadDialect", "CsvWriteDialect"]
