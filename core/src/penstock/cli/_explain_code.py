"""``penstock explain CODE``: what an error's code stands for, its causes, and what to do."""

from __future__ import annotations

from dataclasses import asdict

from penstock._error_book import CODE, ErrorCode, book_of
from penstock._plugins import installed_connectors
from penstock.cli._screen import Screen, as_text, say_json
from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint

__all__ = ["every_code", "show_code"]


def every_code() -> list[ErrorCode]:
    """Returns the codes of the core and of all installed connectors."""
    packages = ["penstock", *(one.entry_point.module.partition(".")[0] for one in installed_connectors())]
    books = [book for one in dict.fromkeys(packages) if (book := book_of(one)) is not None]
    return [code for book in books for code in book]


def show_code(text: str, *, as_json: bool) -> int:
    """The command. Raises BadConfigurationError for what is no code, or none of what is installed."""
    known = {one.code: one for one in every_code()}
    asked = text.strip("[] ").upper()
    found = known.get(asked) or known.get(f"PENSTOCK-{asked}")
    if found is None:
        form = "" if CODE.fullmatch(asked) else ": codes are written as in PENSTOCK-KAFKA-001"
        raise BadConfigurationError(
            f"there is no code '{text}' in what is installed{form}{nearest_hint(asked, list(known))}"
        )
    if as_json:
        say_json(asdict(found))
        return 0
    console = Screen()
    console.print(f"[bold]{found.code}[/]  {as_text(found.title)}")
    for heading, lines in (("causes", found.causes), ("what to do", found.remedies)):
        console.print(f"\n[dim]{heading}[/]")
        for line in lines:
            console.print(f"  - {as_text(line)}", soft_wrap=True)
    return 0
