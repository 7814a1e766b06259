"""A real server with the interface of Azure's blob storage (Azurite), one for each process of the tests.

Take containers of your own. It comes from npm, once, into the user's cache.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import functools
import re
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.dev._paths import cache_folder
from penstock.errors import BadConfigurationError, FatalError
from penstock.storage import AzureStorage, open_storage

__all__ = ["AzureServer", "azure_server", "fetch", "folder"]

VERSION = "3.35.0"
#: The account that every Azurite has, and its key, which is no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def folder() -> Path:
    """Returns where Azurite is, or will be."""
    return cache_folder() / "npm" / f"azurite-{VERSION}"


def fetch(say: Callable[[str], None]) -> None:
    """Fetches Azurite if it is the first time. Raises BadConfigurationError without npm, FatalError with its words."""
    if folder().is_dir():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise BadConfigurationError("the tests of Azure need npm (of Node.js 18 or newer): install it")
    say(f"fetching Azurite {VERSION} (by npm, once, 190 MB on the disk)")
    folder().parent.mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "npm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder().is_dir():
            return
        with tempfile.TemporaryDirectory(prefix=".azurite-", dir=folder().parent) as work:
            command = [npm, "install", "--no-audit", "--no-fund", "--prefix", work, f"azurite@{VERSION}"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise FatalError(f"npm could not install Azurite: {done.stderr.strip()[-500:]}")
            Path(work).rename(folder())
            Path(work).mkdir()  # which the end of the block removes


@dataclass
class AzureServer:
    """Where the server listens, and who may do everything there."""

    endpoint: str
    key: str = KEY

    def options(self) -> dict[str, str]:
        """As users of ``abfss://`` paths give them."""
        return {"azure.endpoint": self.endpoint, "azure.key": self.key}

    @functools.cached_property
    def client(self) -> Any:
        """Microsoft's."""
        from azure.storage.blob import BlobServiceClient

        return BlobServiceClient(self.endpoint, credential=self.key)

    def new_container(self) -> str:
        """Returns the name of a new one."""
        name = f"c{uuid.uuid4().hex[:12]}"
        self.client.create_container(name)
        return name

    def url(self, container: str) -> str:
        """Returns the address of a container, as users write it."""
        return f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net"

    def storage(self) -> AzureStorage:
        """Returns a storage that fails at once."""
        storage, _ = open_storage(self.url("any"), self.options())
        assert isinstance(storage, AzureStorage)
        return storage


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """A process of its own, with its data in memory."""
    with _started() as server:
        yield server


@contextlib.contextmanager
def _started() -> Iterator[AzureServer]:
    """A process on a free port of 127.0.0.1. It says which, once it listens."""
    fetch(print)
    node = shutil.which("node") or "node"
    script = folder() / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    command = [node, str(script), "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
    command += ["--extentMemoryLimit", "2048"]
    command += ["--blobHost", "127.0.0.1", "--blobPort", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if running := re.search(r"listen\w* (?:at|on) (http://127\.0\.0\.1:\d+)", line):
                break
        else:
            pytest.fail(f"Azurite does not start: {''.join(said)}")
        # It goes on writing, and would block if nobody read.
        reader = threading.Thread(target=collections.deque, args=(process.stdout, 0), daemon=True)
        reader.start()
        try:
            yield AzureServer(f"{running[1]}/{ACCOUNT}")
        finally:
            process.kill()
            reader.join()
