"""Makes the folder PostgreSQL lives in, whole or not at all, and checks one that is already there."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pillarbox.database.postgres_programs import PostgresPrograms
from pillarbox.database.server_messages import EmbeddedServerError, explain

ROLE = "pillarbox"
DATABASE = "pillarbox"
_HALF_MADE_PREFIX = "postgres.new-"

# One role may enter, over loopback, with its password. The superuser has no way in over the network.
_CLIENT_AUTHENTICATION = f"""\
# Pillarbox puts this back at every start.
host all {ROLE} 127.0.0.1/32 scram-sha-256
"""

# Not a superuser: row-level security and privileges then mean here what they mean on any other PostgreSQL.
_FIRST_STATEMENTS = f"""\
CREATE ROLE {ROLE} LOGIN CREATEDB CREATEROLE;
GRANT pg_monitor, pg_checkpoint TO {ROLE};
CREATE DATABASE {DATABASE} OWNER {ROLE};
"""


def create_cluster(cluster: Path, programs: PostgresPrograms, password: str) -> None:
    """Builds beside the final place and moves it there last: a half-made one is never taken for whole."""
    remove_half_made(cluster.parent)
    half = Path(tempfile.mkdtemp(prefix=_HALF_MADE_PREFIX, dir=cluster.parent))
    try:
        programs.hand_over(half)
        made = programs.run(
            "initdb",
            [
                "--username=postgres",
                # Nobody enters until our own rules are written.
                "--auth=reject",
                "--encoding=UTF8",
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--data-checksums",
                "--no-instructions",
            ],
            half,
        )
        if made.returncode != 0:
            raise EmbeddedServerError(explain(made.stdout, cluster))
        run_statements(half, cluster, programs, _FIRST_STATEMENTS + _password_statement(password))
        if cluster.exists():
            cluster.rmdir()  # empty, or check_cluster would have refused it
        half.rename(cluster)
        _sync_folder(cluster.parent)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def remove_half_made(data_dir: Path) -> None:
    """Clears what a start that was killed left behind."""
    for half in data_dir.glob(f"{_HALF_MADE_PREFIX}*"):
        shutil.rmtree(half, ignore_errors=True)


def check_cluster(cluster: Path, programs: PostgresPrograms) -> bool:
    """True when a usable data directory is there, False when one is to be made; raises when it is neither."""
    if not cluster.exists():
        return False
    if sys.platform != "win32" and os.geteuid() not in (0, cluster.stat().st_uid):
        raise EmbeddedServerError(
            f"The database in {cluster} belongs to user {cluster.stat().st_uid}: "
            "start Pillarbox as that user or as root, or choose another data directory"
        )
    version_file = cluster / "PG_VERSION"
    if not version_file.exists():
        if next(cluster.iterdir(), None) is None:
            return False
        raise EmbeddedServerError(
            f"{cluster} holds files but no PostgreSQL database (PG_VERSION is missing): "
            "restore the folder from a backup, or move it aside to begin anew"
        )
    version = version_file.read_text(errors="replace").strip()
    if not version.isdecimal():
        raise EmbeddedServerError(
            f"The database in {cluster} is damaged (PG_VERSION reads {version!r}): "
            "restore the folder from a backup, or move it aside to begin anew"
        )
    if int(version) != programs.major_version:
        raise EmbeddedServerError(
            f"The database in {cluster} was made by PostgreSQL {version}, this Pillarbox brings "
            f"PostgreSQL {programs.major_version}: move the data with pg_dump from the version that made it, "
            "or move the folder aside to begin anew"
        )
    return True


def write_client_authentication(cluster: Path, programs: PostgresPrograms) -> None:
    path = cluster / "pg_hba.conf"
    if path.exists() and path.read_text(errors="replace") == _CLIENT_AUTHENTICATION:
        return
    new = cluster / "pg_hba.conf.new"
    new.write_text(_CLIENT_AUTHENTICATION)
    if programs.account is not None:
        os.chown(new, programs.account.uid, programs.account.gid)
    new.chmod(0o600)
    new.replace(path)


def change_password(cluster: Path, programs: PostgresPrograms, password: str) -> None:
    run_statements(cluster, cluster, programs, _password_statement(password))


def run_statements(directory: Path, named: Path, programs: PostgresPrograms, statements: str) -> None:
    """Runs SQL, one statement a line, as the superuser with no server and no password: single-user mode."""
    done = programs.run(
        "postgres",
        [
            "--single",
            "-c",
            "exit_on_error=true",
            "-c",
            "log_checkpoints=off",
            # A statement that fails may hold the password: it is not to be quoted.
            "-c",
            "log_min_error_statement=panic",
            "postgres",
        ],
        directory,
        statements,
    )
    if done.returncode != 0:
        raise EmbeddedServerError(explain(done.stdout, named))


def _password_statement(password: str) -> str:
    return f"ALTER ROLE {ROLE} PASSWORD '{password}';\n"  # our own URL-safe token: no quote in it


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
