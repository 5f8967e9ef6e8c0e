"""Data directories: new ones, used ones, and ones on a disk that is soon full."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pillarbox.database.embedded import EmbeddedServer
from tests.embedded import (
    ROOM,
    query,
)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A short path in a folder everyone may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="pillarbox-", dir=ROOM))
    folder.chmod(0o755)
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def pattern() -> Iterator[Path]:
    """One directory that was started and stopped, with a table in it."""
    folder = Path(tempfile.mkdtemp(prefix="pillarbox-", dir=ROOM))
    try:
        with EmbeddedServer.start(folder / "data") as server:
            query(server.url, "CREATE TABLE kept AS SELECT 42 AS answer")
        yield folder / "data"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def used_data_dir(data_dir: Path, pattern: Path) -> Path:
    """A directory as an earlier run left it."""
    subprocess.run(["cp", "-a", str(pattern), str(data_dir)], check=True)
    return data_dir


@pytest.fixture
def tiny_disk(data_dir: Path) -> Iterator[Path]:
    data_dir.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(data_dir)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount a small disk here")
    yield data_dir
    subprocess.run(["umount", "-l", str(data_dir)], check=True)


@pytest.fixture
def opened() -> Iterator[Path]:
    """A folder that programs may be run from, which shared memory is often mounted not to be."""
    folder = Path(tempfile.mkdtemp(prefix="pillarbox-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
