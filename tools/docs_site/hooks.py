"""What MkDocs calls while it builds the site (``hooks`` in mkdocs.yml)."""

from __future__ import annotations

import logging
import re
from pathlib import PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

from docs_site.markdown import anchor_of
from docs_site.pages import ROOT, expand_navigation, linked_paths, page_of, site_markdown

_log = logging.getLogger("mkdocs.hooks.docs_site")
_MORE_THAN_A_LANGUAGE = re.compile(r"^(`{3,})(\w+) (?:file=\S+|output|fails|not run)$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".c": "c", ".json": "json", ".yaml": "yaml"}


def on_config(config: Any) -> Any:
    """Folders of the navigation become their pages; anchors are those of repository viewers."""
    config.nav = expand_navigation(config.nav)
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor_of
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds what is linked to and not in ``docs/``, and pages for listings that are no Markdown."""
    for file in [file for file in files if file.src_uri.endswith(".txt")]:
        files.remove(file)
    waiting = ["README.md", "CONTRIBUTING.md"]
    waiting += [f"docs/{file.src_uri}" for file in files if file.src_uri.endswith(".md")]
    waiting += [f"docs/api/{path.name}" for path in sorted((ROOT / "docs" / "api").glob("*.txt"))]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not (ROOT / path).exists():
            continue
        seen.add(path)
        uri = page_of(path)
        if (ROOT / path).is_dir():
            path = f"{path}/README.md"
            if not (ROOT / path).exists():
                _log.warning("%s is linked to, and has no README.md", path)
                continue
        if path.endswith(".md"):
            waiting += linked_paths(path, (ROOT / path).read_text("utf-8"))
        if files.get_file_from_path(uri) is None and uri.endswith(".md"):
            files.append(File.generated(config, uri, content=_page(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links that lead out of ``docs/``, and code blocks that tell the tests more than their language."""
    if page.file.generated_by is None:
        markdown = site_markdown(f"docs/{page.file.src_uri}", markdown)
    return _MORE_THAN_A_LANGUAGE.sub(r"\1\2", markdown)


def _page(path: str) -> str:
    """A page of the site for a file that is not one in ``docs/``."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".md"):
        return site_markdown(path, text)
    if path.startswith("docs/api/"):
        return _listing(PurePosixPath(path).stem, text)
    language = _LANGUAGES.get(PurePosixPath(path).suffix, "text")
    longest = max((len(ticks) for ticks in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    name = PurePosixPath(path).name
    code = f'{fence}{language} linenums="1" title="{path}"\n{text}{fence}\n'
    return f"---\nsearch:\n  exclude: true\n---\n# {name}\n\n{code}"


def _listing(package: str, text: str) -> str:
    """A listing of the public API with a heading for each module."""
    parts = [f"---\nsearch:\n  boost: 0.3\n---\n# {package}\n\nWhat the lines mean: [the public API](README.md).\n"]
    module, lines = "", list[str]()

    def close() -> None:
        if lines:
            parts.append("```text\n" + "\n".join(lines) + "\n```\n")
            lines.clear()

    for line in text.splitlines():
        path, _, what = line.partition(": ")
        if line.startswith("#"):
            continue
        if what == "module":
            close()
            module = path
            parts.append(f"## {module}\n")
        else:
            lines.append(line.removeprefix(f"{module}."))
    close()
    return "\n".join(parts)
