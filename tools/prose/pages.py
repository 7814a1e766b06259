"""The rules for Markdown: one sentence on a line, no long sentences, headings in sentence case, no phrase to avoid.

Code, pictures, HTML comments and generated parts are left out. A generated part stands between ``<!-- name -->`` and
``<!-- /name -->``. Rows of tables are read for phrases only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prose.words import Finding, findings

__all__ = ["MOST_WORDS", "check_page"]

#: A sentence with more words than this is hard to follow. Code counts as one word.
MOST_WORDS = 40
#: Words with a capital letter that may stand inside a heading.
NAMES = frozenset(
    {"Amazon", "Apache", "Arrow", "Avro", "Cassandra", "Connect", "Declarative", "Flink", "I", "Iceberg", "Java"}
    | {"Kafka", "Keycloak", "Kubernetes", "Linux", "Parquet", "Penstock", "Pipelines", "Pravega", "Python", "Spark"}
    | {"Streaming", "Structured", "Dataproc", "Fabric", "Zig"}
)

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_COMMENT = re.compile(r"^\s*<!-- (/?)(.*?) -->\s*$")
_HEADING = re.compile(r"^#{1,6}\s+(?:\d+\.\s+)?(.*)$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)|</?(?:picture|source|img)\b[^>]*>")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
#: What opens a paragraph and names its subject: **Data loss.** or *Latency:*
_LABEL = re.compile(r"^(\*{1,2})(?! )[^*]+[.:]\1\s+|^(\*{1,2})(?! )[^*]+\2[.:]\s+")
_END = re.compile(r"[.!?:…][\"'”)\]*_]*$|<br>$")
_NEXT = re.compile(r"(?<=[.!?])[\"'”)\]*_]*\s+(?=[\"'“(\[*_]*[A-Z0-9`])")
_ABBREVIATIONS = re.compile(r"\b(?:vs|etc|cf|No|approx)\.$")
_WORD = re.compile(r"[\w'’.,-]*\w")


def check_page(text: str) -> list[Finding]:
    """Returns what is wrong with the prose of a page, in the order of its lines."""
    found: list[Finding] = []
    for block in _blocks(text):
        found += _check_block(block)
    return sorted(found, key=lambda finding: finding.line)


def _blocks(text: str) -> Iterator[list[tuple[int, str]]]:
    """Yields paragraphs, list items, headings and rows of tables, each as numbered lines, without code."""
    block: list[tuple[int, str]] = []
    for number, line in _outside_code(text.splitlines()):
        alone = bool(_HEADING.match(line)) or line.lstrip().startswith("|")
        if block and (not line.strip() or alone or _ITEM.match(line)):
            yield block
            block = []
        if alone:
            yield [(number, line)]
        elif line.strip():
            block.append((number, line))
    if block:
        yield block


def _outside_code(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yields every line with its number; lines of code, comments and generated parts are emptied."""
    closed = {match.group(2) for line in lines if (match := _COMMENT.match(line)) and match.group(1)}
    fence = generated = ""
    front_matter = bool(lines) and lines[0] == "---"
    for number, line in enumerate(lines, 1):
        opened = _FENCE.match(line)
        comment = _COMMENT.match(line)
        prose = False
        if front_matter:
            front_matter = number == 1 or line != "---"
        elif fence:
            if opened and opened.group(1).startswith(fence) and line.strip() == opened.group(1):
                fence = ""
        elif generated:
            if comment and comment.group(1) and comment.group(2) == generated:
                generated = ""
        elif opened:
            fence = opened.group(1)
        elif comment:
            name = comment.group(2).partition(":")[0]
            generated = name if not comment.group(1) and name in closed else ""
        else:
            prose = True
        yield number, line if prose else ""


def _check_block(block: list[tuple[int, str]]) -> Iterator[Finding]:
    first, line = block[0]
    plain = [(number, _plain(line)) for number, line in block]
    yield from findings("\n".join(text for _, text in plain), first)
    if line.lstrip().startswith("|"):
        return
    if heading := _HEADING.match(plain[0][1]):
        yield from _check_heading(heading.group(1), first)
        return
    for index, (number, text) in enumerate(plain):
        yield from _check_line(text, number, last=index == len(plain) - 1)


def _plain(line: str) -> str:
    """Returns the line as it is read: code as one short word, links as their text, no mark of a list item."""
    line = _PICTURE.sub("", _INLINE_CODE.sub("`code`", line))
    return _LABEL.sub("", _ITEM.sub("", _LINK.sub(r"\1", line)).strip())


def _check_heading(heading: str, number: int) -> Iterator[Finding]:
    words = [word.strip("`,.:()?'’\"") for word in heading.split()]
    for word in words[1:]:
        name = re.sub(r"['’]s?$", "", word)
        if re.match(r"[A-Z][a-z]", name) and name not in NAMES and not re.search(r"[a-z][A-Z]", name):
            yield Finding(number, f"heading with a capital letter in {word!r}", "use sentence case, or add it to NAMES")


def _check_line(text: str, number: int, *, last: bool) -> Iterator[Finding]:
    sentences = _sentences(text)
    if len(sentences) > 1:
        yield Finding(number, "more than one sentence on a line", "put each on a line of its own")
    if not last and text and not _END.search(text):
        yield Finding(number, "a sentence that runs over lines", "put it on one line")
    for sentence in sentences:
        if (words := len(_WORD.findall(sentence))) > MOST_WORDS:
            yield Finding(number, f"a sentence of {words} words", f"split it: at most {MOST_WORDS}")


def _sentences(text: str) -> list[str]:
    """Splits a line into sentences. A dot after an abbreviation ends none."""
    sentences: list[str] = []
    start = 0
    for match in _NEXT.finditer(text):
        if not _ABBREVIATIONS.search(text[start : match.start()]):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]
