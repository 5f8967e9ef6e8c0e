"""Checks what no linter does: lock files without hosts, and translations that are whole."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ["package-lock.json", "benchmarks/palette/package-lock.json", "requirements/*.txt"]
HOST = re.compile(r"https?://|file:/|\"resolved\"")
# npm copies the packages' funding pages, which are no registries: "url": "…", or bare in a list.
FUNDING = re.compile(r'^\s*("url": )?"https?://[^"]*"(,)?$')


def hosts_in_locks() -> list[str]:
    """Lines of lock files that name where a package was downloaded from."""
    found = []
    for pattern in LOCKS:
        for path in ROOT.glob(pattern):
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                if HOST.search(line) and not FUNDING.search(line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    return found


def gaps_in_messages() -> list[str]:
    """Keys that one catalogue has and the other lacks, keys no source uses, and empty texts."""
    catalogues = {
        language: json.loads((ROOT / f"frontend/messages/{language}.json").read_text("utf-8"))
        for language in ("en", "de")
    }
    keys = {language: set(catalogue) - {"$schema"} for language, catalogue in catalogues.items()}
    if not keys["en"]:
        return ["frontend/messages/en.json has no messages"]
    gaps = [f"{key}: missing in de" for key in sorted(keys["en"] - keys["de"])]
    gaps += [f"{key}: missing in en" for key in sorted(keys["de"] - keys["en"])]
    gaps += [
        f"{key}: empty in {language}"
        for language in catalogues
        for key in sorted(keys[language])
        if not catalogues[language][key]
    ]
    sources = "\n".join(
        path.read_text("utf-8")
        for path in (ROOT / "frontend/src").rglob("*")
        if path.suffix in {".ts", ".svelte"} and "paraglide" not in path.parts
    )
    gaps += [f"{key}: used nowhere" for key in sorted(keys["en"]) if not re.search(rf"\b{key}\b", sources)]
    return gaps


def main() -> int:
    problems = hosts_in_locks() + gaps_in_messages()
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    if "backend/pillarbox/web/" in tracked.stdout:
        problems.append("the built page is committed")
    for problem in problems:
        sys.stderr.write(problem + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
