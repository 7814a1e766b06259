#!/usr/bin/env python3
"""Starts runc without what a machine that is a container itself refuses: raised limits, and the right to raise them."""

import json
import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    """Takes both out of the bundle that is about to be created, and becomes runc."""
    arguments = sys.argv[1:]
    if "create" in arguments:
        bundle = next((arguments[at + 1] for at, word in enumerate(arguments) if word in ("--bundle", "-b")), ".")
        file = Path(bundle) / "config.json"
        settings = json.loads(file.read_text("utf-8"))
        settings["process"].pop("rlimits", None)
        granted = settings["process"].get("capabilities", {})
        for kind, names in granted.items():
            granted[kind] = [name for name in names if name != "CAP_SYS_RESOURCE"]
        file.write_text(json.dumps(settings), "utf-8")
    runc = shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin:/bin")
    os.execv(runc or "/usr/sbin/runc", ["runc", *arguments])


if __name__ == "__main__":
    main()
