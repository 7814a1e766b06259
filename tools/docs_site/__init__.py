"""The documentation site: links of the repository's Markdown, and what MkDocs is told about them."""

from __future__ import annotations
