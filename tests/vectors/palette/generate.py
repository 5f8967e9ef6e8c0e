"""Writes vectors.json: images and the answers palette.ts gives for them, which both twins must repeat.

Run it (`python -m tests.vectors.palette.generate`) only when the palette is meant to change.
"""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.vectors.palette.node_twin import NodeTwin

VECTORS = Path(__file__).with_name("vectors.json")
Image = npt.NDArray[np.uint8]


def flat(*rgba: int, pixels: int = 64) -> Image:
    return np.tile(np.array(rgba, np.uint8), (pixels, 1))


def gradient(side: int) -> Image:
    y, x = np.mgrid[0:side, 0:side]
    span = 255 // (side - 1)
    return np.stack([x * span, y * span, (x + y) * span // 2, np.full_like(x, 255)], -1).astype(np.uint8)


def blobs(
    random: np.random.Generator, centres: int, pixels: int, spread: float, alpha: bool = False
) -> Image:
    """Clusters as photographs have them, far more distinct colours than are kept exactly."""
    which = random.integers(0, centres, pixels)
    colours = random.uniform(20, 235, (centres, 3))[which] + random.normal(0, spread, (pixels, 3))
    opacity = random.integers(0, 256, (pixels, 1)) if alpha else np.full((pixels, 1), 255)
    return np.hstack([np.clip(colours, 0, 255), opacity]).astype(np.uint8)


def images() -> dict[str, tuple[Image, int]]:
    random = np.random.default_rng(720)
    noise = random.integers(0, 256, (6000, 4), dtype=np.uint8)
    black_and_white = np.concatenate([flat(0, 0, 0, 255, pixels=30), flat(255, 255, 255, 255, pixels=10)])
    same_bin = np.concatenate([flat(8 + i, 16 + i, 24, 255, pixels=i + 1) for i in range(5)])
    fringe = np.array([[200, 0, 0, 127], [0, 200, 0, 128], [0, 0, 200, 255], [9, 9, 9, 0]], np.uint8)
    return {
        "empty": (np.empty((0, 4), np.uint8), 6),
        "one pixel": (flat(1, 2, 3, 255, pixels=1), 6),
        "flat": (flat(18, 52, 86, 255), 6),
        "transparent": (flat(255, 0, 0, 127), 6),
        "alpha at the threshold": (fringe, 6),
        "black and white": (black_and_white, 6),
        "five colours in one bin": (same_bin, 6),
        "five colours in one bin, two asked": (same_bin, 2),
        "equal shares": (np.array([[i * 40, 0, 255 - i * 40, 255] for i in range(6)], np.uint8), 6),
        "all greys": (np.array([[i, i, i, 255] for i in range(256)], np.uint8), 6),
        "gradient": (gradient(64), 6),
        "gradient, one asked": (gradient(32), 1),
        "gradient, 256 asked": (gradient(32), 256),
        "noise with alpha": (noise, 6),
        "four blobs": (blobs(random, 4, 9000, 14), 6),
        "nine blobs": (blobs(random, 9, 9000, 9), 6),
        "nine blobs with alpha": (blobs(random, 9, 12000, 11, alpha=True), 6),
        "nine blobs, twelve asked": (blobs(random, 9, 9000, 9), 12),
    }


def main() -> None:
    cases: list[dict[str, Any]] = []
    with NodeTwin() as twin:
        for name, (image, count) in images().items():
            deflated = base64.b64encode(zlib.compress(image.tobytes(), 9)).decode()
            answer = twin.answer(image.tobytes(), count)
            cases.append({"name": name, "count": count, "rgbaDeflated": deflated, **answer})
    VECTORS.write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
