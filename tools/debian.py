"""Makes sure that programs of Debian's are there: installs the missing ones where that is allowed, says how otherwise."""

import os
import shutil
import subprocess
import sys

ALTERNATIVES = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "pgbouncer": ("pgbouncer",),
}
SEARCHED = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def is_there(package: str) -> bool:
    return any(shutil.which(name, path=SEARCHED) for name in ALTERNATIVES[package])


def main(packages: list[str]) -> int:
    missing = [package for package in packages if not is_there(package)]
    if not missing:
        return 0
    apt = shutil.which("apt-get")
    sudo: list[str] | None = [] if os.geteuid() == 0 else None
    if sudo is None and shutil.which("sudo"):
        allowed = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
        sudo = ["sudo", "-n", "DEBIAN_FRONTEND=noninteractive"] if allowed else None
    if apt is None or sudo is None:
        sys.stderr.write(
            f"The tests need {' and '.join(missing)}, and this user cannot install packages. "
            f"Ask an administrator for: apt-get install {' '.join(missing)}\n"
        )
        return 1
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *missing]):
        if subprocess.run([*sudo, apt, *command], env=environment, stdout=2, check=False).returncode:
            sys.stderr.write(f"apt-get {command[0]} failed; the tests need {' and '.join(missing)}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
