"""Third-party formats: found by entry points, or named by their class."""

from penstock_filesystem.formats.third_party._contract import FileEncoder, FileFormat, FileReader, FileWriter
from penstock_filesystem.formats.third_party._find import installed_formats, load_format

__all__ = ["FileEncoder", "FileFormat", "FileReader", "FileWriter", "installed_formats", "load_format"]
