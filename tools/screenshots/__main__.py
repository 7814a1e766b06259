"""``python -m screenshots [FOLDER]``: runs a pipeline, draws its display, and photographs site and dashboard.

Needs Chromium or Chrome for the photographs, and the site in ``.cache/site``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

from penstock.cli._dashboard import write_dashboard
from screenshots.live import draw_live, run_pipeline

_ROOT = Path(__file__).resolve().parents[2]
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PAGES = (
    *("index", "guides/README", "guides/kafka-to-a-lake", "what-works-where", "kafka", "architecture"),
    "performance/README",
)
#: Name, width and height of the window, and whether the reader prefers dark pages.
_VIEWS = (("light", 1300, 1800, False), ("dark", 1300, 1800, True), ("mobile", 500, 1800, False))
_SEARCH = "index.html?q=watermark"


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    target = Path(arguments[0]) if arguments else _ROOT / ".cache" / "screenshots"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-run-") as folder:
        lines = run_pipeline(Path(folder))
    progress = target / "run.jsonl"
    progress.write_text("\n".join(lines) + "\n", "utf-8")
    draw_live(lines, _ROOT / "docs" / "pictures")
    write_dashboard(progress, target / "dashboard.html", watch=False)
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        print(f"screenshots: none of {', '.join(_BROWSERS)} is installed; pages are not photographed", file=sys.stderr)
        return 1
    site = _ROOT / ".cache" / "site"
    pages = {page.replace("/", "-"): (site / f"{page}.html").as_uri() for page in _PAGES}
    pages |= {"search": f"{site.as_uri()}/{_SEARCH}", "dashboard": (target / "dashboard.html").as_uri()}
    pages |= {picture.stem: picture.as_uri() for picture in sorted((_ROOT / "docs" / "pictures").glob("live-*.svg"))}
    for (name, address), view in product(pages.items(), _VIEWS):
        _photograph(browser, address, target / f"{name}-{view[0]}.png", *view[1:])
    print(f"screenshots: {len(pages) * len(_VIEWS)} pictures in {target}")
    return 0


def _photograph(browser: str, address: str, target: Path, width: int, height: int, dark: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-browser-") as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={profile}", f"--window-size={width},{height}", "--virtual-time-budget=8000"]
        command += ["--blink-settings=preferredColorScheme=0"] if dark else []
        command += [f"--screenshot={target}", address]
        subprocess.run(command, check=True, capture_output=True, timeout=180)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
