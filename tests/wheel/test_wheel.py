"""The wheel alone, in an environment of its own and without Node: it serves the page and delivers."""

import json
import re
import subprocess
import sys
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from tests.site import Site

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("pillarbox-*.whl")
    return path


def test_the_wheel_carries_the_migrations_and_the_built_page(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "pillarbox/web/index.html" in names
    assert any(re.fullmatch(r"pillarbox/web/assets/.+\.js", name) for name in names)
    assert "pillarbox/database/migrations/env.py" in names
    assert "pillarbox/database/migrations/versions/0001_outbox.py" in names
    assert not [name for name in names if "test" in name or "node_modules" in name]


@pytest.mark.timeout(300)
def test_an_installed_wheel_serves_and_delivers_without_node(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    requirements = ROOT / "requirements" / "run.txt"
    subprocess.run([*pip, "--require-hashes", "-r", str(requirements)], check=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    # A PATH without Node, and nothing of the checkout on Python's path.
    site = Site(None, executable=str(python), PATH=str(environment / "bin"), PYTHONPATH="")
    try:
        site.start()
        page = fetch(f"{site.url}/showcases/workers", accept="text/html")
        script = re.search(r'src="(/assets/[^"]+\.js)"', page)
        assert script
        assert fetch(site.url + script[1])
        body = json.dumps({"channel": "email", "title": "From the wheel"}).encode()
        request = urllib.request.Request(
            f"{site.url}/api/outbox/notifications", data=body, headers={"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 201
        stream = urllib.request.urlopen(f"{site.url}/api/outbox/stream", timeout=20)
        for line in stream:
            if b"settledTotal" in line and json.loads(line[6:])["settledTotal"] == 1:
                break
        assert "From the wheel" in fetch(f"{site.url}/api/inbox/messages")
    finally:
        site.close()


def fetch(url: str, accept: str = "*/*") -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"accept": accept})) as answer:
        return answer.read().decode()
