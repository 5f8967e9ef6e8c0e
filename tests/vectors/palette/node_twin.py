"""palette.ts, asked from Python: one Node process that answers a line a request."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_SCRIPT = Path(__file__).with_name("twin.mjs")
_ROOT = Path(__file__).parents[3]


class NodeTwin:
    """A context manager; the process ends with it."""

    @staticmethod
    def available() -> bool:
        return shutil.which("node") is not None and (_ROOT / "node_modules" / "vite").is_dir()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["node", str(_SCRIPT)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Closing its input ends the script.
        self._process.communicate(timeout=10)

    def answer(self, rgba: bytes, count: int) -> dict[str, Any]:
        """`swatches` and `luminance`, as JSON carries doubles: exactly."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the twin was started without pipes")
        request = {"rgba": base64.b64encode(rgba).decode(), "count": count}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"palette.ts did not answer; Node ended with {self._process.wait(10)}")
        return json.loads(line)
