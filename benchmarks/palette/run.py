"""Palette speed and error beside the libraries people use, on the photographs scikit-image ships.

`figures()` for the collector, or alone: `python -m benchmarks.palette.run`. `ratio` is value ÷ peer_value;
both units (ms per megapixel, mean ΔE2000) are the better the smaller they are, so below 1 is ahead.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import skimage
from PIL import Image
from skimage.color import deltaE_ciede2000, rgb2lab

from pillarbox.imaging.palette import dominant_colors

_HERE = Path(__file__).parent
_PHOTOGRAPHS = (
    "astronaut.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "hubble_deep_field.jpg",
    "motorcycle_left.png",
    "retina.jpg",
    "rocket.jpg",
)
_SWATCHES = 6
_WARM_UP = 2
_ROUNDS = 5
# Every seventh pixel: coprime to the widths, the same pixels for every library.
_SAMPLE_STEP = 7


def figures() -> list[dict[str, Any]]:
    """`name, value, unit, peer, peer_value, ratio` for Node and for Python."""
    photographs = {
        name: Image.open(Path(skimage.__file__).parent / "data" / name).convert("RGBA")
        for name in _PHOTOGRAPHS
    }
    judge = _Judge(photographs)
    return [
        *_compare("palette_node", _run_node(photographs), judge),
        *_compare("palette_python", _run_python(photographs), judge),
    ]


class _Judge:
    """Mean ΔE2000 from each sampled pixel to the nearest swatch, averaged over the photographs."""

    def __init__(self, photographs: dict[str, Image.Image]) -> None:
        self.megapixels = sum(image.width * image.height for image in photographs.values()) / 1e6
        self._samples = {
            name: _lab(np.asarray(image).reshape(-1, 4)[::_SAMPLE_STEP, :3])
            for name, image in photographs.items()
        }

    def error(self, palettes: dict[str, list[list[int]]]) -> float:
        return statistics.fmean(self._error_of(name, colours) for name, colours in palettes.items())

    def _error_of(self, name: str, colours: list[list[int]]) -> float:
        sample = self._samples[name]
        swatches = _lab(np.array(colours))
        distances = [deltaE_ciede2000(sample, np.broadcast_to(swatch, sample.shape)) for swatch in swatches]
        return float(np.min(distances, axis=0).mean())


def _lab(rgb: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return rgb2lab(rgb[None] / 255)[0]


class _Contender:
    """Times and palettes of one library in one setting over all photographs."""

    def __init__(self) -> None:
        self.milliseconds = 0.0
        self.palettes: dict[str, list[list[int]]] = {}

    def add(self, image: str, milliseconds: float, colours: list[list[int]]) -> None:
        self.milliseconds += milliseconds
        self.palettes[image] = colours


def _run_node(photographs: dict[str, Image.Image]) -> dict[str, _Contender]:
    contenders: dict[str, _Contender] = {}
    with tempfile.TemporaryDirectory() as folder:
        manifest: list[dict[str, Any]] = []
        for name, image in photographs.items():
            file = Path(folder) / f"{name}.rgba"
            file.write_bytes(image.tobytes())
            manifest.append({"name": name, "width": image.width, "height": image.height, "file": str(file)})
        listing = Path(folder) / "manifest.json"
        listing.write_text(json.dumps(manifest))
        done = subprocess.run(
            ["node", "--expose-gc", str(_HERE / "peers.mjs"), str(listing)],
            check=True,
            stdout=subprocess.PIPE,
            cwd=_HERE,
            timeout=600,
        )
    report = json.loads(done.stdout)
    _say_versions(report["versions"])
    for run in report["runs"]:
        label = run["library"] if run["setting"] == "every pixel" else f"{run['library']} ({run['setting']})"
        contenders.setdefault(label, _Contender()).add(run["image"], run["milliseconds"], run["colors"])
    return contenders


def _run_python(photographs: dict[str, Image.Image]) -> dict[str, _Contender]:
    _say_versions({name: version(name) for name in ("numpy", "pillow")})
    methods = {
        "pillow median cut": Image.Quantize.MEDIANCUT,
        "pillow max coverage": Image.Quantize.MAXCOVERAGE,
        "pillow fast octree": Image.Quantize.FASTOCTREE,
    }
    contenders: dict[str, _Contender] = {}
    for name, image in photographs.items():
        pixels = np.asarray(image)
        contenders.setdefault("pillarbox", _Contender()).add(name, *_timed(lambda p=pixels: _twin(p)))
        opaque = image.convert("RGB")
        for label, method in methods.items():
            timed = _timed(lambda image=opaque, method=method: _quantised(image, method))
            contenders.setdefault(label, _Contender()).add(name, *timed)
    return contenders


def _twin(pixels: npt.NDArray[np.uint8]) -> list[list[int]]:
    return [[swatch.r, swatch.g, swatch.b] for swatch in dominant_colors(pixels, _SWATCHES)]


def _quantised(image: Image.Image, method: Image.Quantize) -> list[list[int]]:
    palette = image.quantize(_SWATCHES, method).getpalette() or []
    return [palette[at : at + 3] for at in range(0, 3 * _SWATCHES, 3) if len(palette) >= at + 3]


def _timed(work: Callable[[], list[list[int]]]) -> tuple[float, list[list[int]]]:
    times: list[float] = []
    colours: list[list[int]] = []
    for turn in range(_WARM_UP + _ROUNDS):
        start = time.perf_counter()
        colours = work()
        if turn >= _WARM_UP:
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times), colours


def _compare(prefix: str, contenders: dict[str, _Contender], judge: _Judge) -> list[dict[str, Any]]:
    speeds = {label: one.milliseconds / judge.megapixels for label, one in contenders.items()}
    errors = {label: judge.error(one.palettes) for label, one in contenders.items()}
    return [
        {
            "name": f"{prefix}_{name}",
            "value": values["pillarbox"],
            "unit": unit,
            "peer": peer,
            "peer_value": values[peer],
            "ratio": values["pillarbox"] / values[peer],
        }
        for name, unit, values in (("speed", "ms/megapixel", speeds), ("error", "mean ΔE2000", errors))
        for peer in contenders
        if peer != "pillarbox"
    ]


def _say_versions(versions: dict[str, str]) -> None:
    print("palette:", ", ".join(f"{name} {number}" for name, number in versions.items()), file=sys.stderr)


if __name__ == "__main__":
    for figure in figures():
        print(
            f"{figure['name']:22} {figure['value']:7.2f} {figure['unit']:13} beside "
            f"{figure['peer_value']:8.2f} {figure['peer']:28} {figure['ratio']:.2f}×"
        )
