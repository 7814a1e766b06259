"""The disk of the target, or of the checkpoint, has no room left: the kernel says so, in the middle of a batch."""

from __future__ import annotations

import contextlib
import errno
import subprocess

import pytest

from harness.oracle import check_files, hidden_files, rows_of
from penstock.checkpoint import take_over
from penstock.errors import BadConfigurationError

pytestmark = pytest.mark.spark

CHAIN = "penstock._commit._chain:Chain"
RENAME = "penstock_filesystem.sink.staging._rename:RenameCommitter"
WRITER = "penstock_filesystem.sink._writer:FileSystemWriter"
ROLLER = "penstock_filesystem.sink._rolling:FileSystemRoller"
MORE = pytest.mark.exhaustive("another step that needs room; the other cases are the witnesses")


class SmallDisk:
    """A file system of its own with little room, which can be filled to the last byte and name."""

    def __init__(self, path):
        self.path = path
        self._ballast = path / "ballast"

    def fill(self):
        self._ballast.mkdir()
        for content in (bytes(1 << 12), b""):
            for number in range(100_000):
                try:
                    (self._ballast / f"{len(content)}-{number}").write_bytes(content)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    break

    def make_room(self):
        for path in self._ballast.iterdir():
            path.unlink()
        self._ballast.rmdir()


@pytest.fixture
def small_disk():
    """``small_disk(path)``: mounts one there. The test is skipped where that is not allowed."""
    with contextlib.ExitStack() as mounted:

        def mount(path):
            path.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=3000", "tmpfs", str(path)]
            try:
                done = subprocess.run(command, capture_output=True, text=True)
            except OSError as error:
                pytest.skip(f"nothing can be mounted here: {error}")
            if done.returncode:
                pytest.skip(f"a file system can't be mounted here: {done.stderr.strip()}")
            mounted.callback(subprocess.run, ["umount", "--lazy", str(path)], check=True)
            return SmallDisk(path)

        yield mount


OPTIONS = {"maxPartSize": "4kb", "bucketAssigner": "dateTime", "log": "OFF"}


def says_what_is_full(run, disk):
    return "No space left on device" in run.last_words() and str(disk.path) in run.last_words()


@pytest.mark.parametrize(
    ("full", "point"),
    [
        ("ck", f"{CHAIN}.create:before:2"),
        pytest.param("ck", f"{CHAIN}.mark_done:before:2", marks=MORE),
        pytest.param("out", f"{WRITER}.prepare_commit:before:3", marks=MORE),
        pytest.param("out", f"{RENAME}.publish:before:1", marks=MORE),
        pytest.param("out", f"{ROLLER}.roll:before:2", marks=MORE),
    ],
)
def test_stream(small_disk, driver, csv_files, tmp_path, full, point):
    """The query fails and says where there is no room; with room, it continues."""
    disk = small_disk(tmp_path / full)
    expected = csv_files(3, 200)
    run = driver("copy_files", fault=point, action="stop", **OPTIONS)
    run.wait_for_hits()
    disk.fill()
    run.resume()
    run.wait_for_failure()
    disk.make_room()
    driver("copy_files", **OPTIONS).wait_for_success()
    check_files(tmp_path / "out", expected)
    assert hidden_files(tmp_path / "out") == []
    assert says_what_is_full(run, disk), run.tail()


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(f"{WRITER}.prepare_commit:before:1", marks=MORE),
        pytest.param(f"{ROLLER}.roll:before:1", marks=MORE),
        pytest.param(f"{CHAIN}.create:before:2", marks=MORE),
        pytest.param(f"{RENAME}.publish:before:1", marks=MORE),
    ],
)
def test_batch_write(small_disk, driver, tmp_path, point):
    """All or nothing; what was decided is finished, what was not is written again."""
    disk = small_disk(tmp_path / "out")
    run = driver("write_files", fault=point, action="stop", bucketAssigner="dateTime")
    run.wait_for_hits()
    disk.fill()
    run.resume()
    run.wait_for_failure()
    assert says_what_is_full(run, disk), run.tail()
    assert not rows_of(tmp_path / "out")
    disk.make_room()
    with contextlib.suppress(BadConfigurationError):  # nothing was left
        take_over(str(tmp_path / "out"))
    assert hidden_files(tmp_path / "out") == []
    if not rows_of(tmp_path / "out"):
        driver("write_files", bucketAssigner="dateTime").wait_for_success()
    check_files(tmp_path / "out", range(2000))
    assert hidden_files(tmp_path / "out") == []
