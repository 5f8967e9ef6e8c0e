"""A real PgBouncer in transaction mode before the test's PostgreSQL."""

import asyncio
import os
import pwd
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

SEARCHED = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


@asynccontextmanager
async def pgbouncer(url: str, *, pool_size: int = 2) -> AsyncIterator[str]:
    """Start one; answers the address behind which `url`'s database stands."""
    program = shutil.which("pgbouncer", path=SEARCHED)
    assert program, "PgBouncer is missing: python tools/debian.py pgbouncer"
    parts = urlsplit(url)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    (folder / "users.txt").write_text(f'"{user}" "{password}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"""[databases]
* = host={parts.hostname} port={parts.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 100
"""
    )
    arguments = [program, str(folder / "pgbouncer.ini")]
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (folder, folder / "users.txt", folder / "pgbouncer.ini"):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        arguments[1:1] = ["-u", "nobody"]
    process = await asyncio.create_subprocess_exec(*arguments, stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        async with asyncio.timeout(10):
            while b"process up" not in (line := await process.stderr.readline()):
                assert line, "PgBouncer did not start"
        drain = asyncio.ensure_future(process.stderr.read())
        yield urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}"))
        drain.cancel()
    finally:
        process.kill()
        await process.wait()
        shutil.rmtree(folder)
