"""One command with its own PostgreSQL: what it leaves behind, and what it finds again."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.site import Site


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site(None)
    site.start()
    yield site
    site.close()


def get(url: str) -> dict:
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


def post(url: str, body: dict) -> dict:
    request = urllib.request.Request(
        url, data=json.dumps(body).encode(), headers={"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def enqueue(site: Site, **body: object) -> None:
    post(f"{site.url}/api/outbox/notifications", {"channel": "email", **body})


def wait_until_settled(site: Site, total: int) -> None:
    with urllib.request.urlopen(f"{site.url}/api/outbox/stream", timeout=20) as stream:
        for line in stream:
            if b"settledTotal" in line and json.loads(line[6:])["settledTotal"] >= total:
                return


def servers_of(site: Site) -> list[psutil.Process]:
    return [
        child for child in psutil.Process(site.pid).children(recursive=True) if "postgres" in child.name()
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_the_end_of_the_command_is_the_end_of_its_database_and_the_data_stays(
    site: Site, number: signal.Signals
) -> None:
    enqueue(site, count=3)
    wait_until_settled(site, 3)
    servers = servers_of(site)
    assert servers, "the embedded server runs"
    code = site.stop(number)
    assert code == {signal.SIGINT: 0, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    _, alive = psutil.wait_procs(servers, timeout=5)
    assert alive == []
    site.start()
    assert get(f"{site.url}/api/outbox/depth")["sent"] == 3
    assert get(f"{site.url}/api/inbox/messages")["total"] == 3


def test_a_second_command_on_the_same_folder_is_refused_in_one_line(site: Site) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "pillarbox", "serve"],
        env={**site.environment, "PILLARBOX_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert second.returncode == 1
    (line,) = second.stderr.splitlines()
    assert str(site.pid) in line
    assert get(f"{site.url}/health/ready") == {"status": "ready"}, "the first goes on"


def test_a_drain_beside_it_finds_its_database(site: Site) -> None:
    beside = subprocess.run(
        [sys.executable, "-m", "pillarbox", "drain", "--json"],
        env=site.environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert beside.returncode == 0, beside.stderr
    assert json.loads(beside.stdout)["claimed"] == 0
    assert get(f"{site.url}/health/ready") == {"status": "ready"}


def test_the_generated_secrets_are_the_owners_alone(site: Site) -> None:
    folder = site.environment["PILLARBOX_DATA_DIR"]
    for name in ("webhook-secret", "postgres.password"):
        assert (Path(folder) / name).stat().st_mode & 0o077 == 0


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux ends a child with its parent, however it ends"
)
def test_a_frozen_worker_of_an_incident_does_not_outlive_a_killed_server(site: Site) -> None:
    pid = post(f"{site.url}/api/showcase/incident", {"kind": "freeze"})["workerPid"]
    post(f"{site.url}/api/showcase/incident/step", {"action": "freeze"})
    worker = psutil.Process(pid)
    assert worker.status() == psutil.STATUS_STOPPED
    site.stop(signal.SIGKILL)
    _, alive = psutil.wait_procs([worker], timeout=5)
    assert alive == []
