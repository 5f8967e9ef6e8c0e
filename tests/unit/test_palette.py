"""The palette on the server: right answers, and to the last bit those of its twin in the browser."""

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pillarbox.imaging.palette import average_luminance, dominant_colors
from tests.vectors.palette.node_twin import NodeTwin

VECTORS = Path(__file__).parents[1] / "vectors" / "palette" / "vectors.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text())
PHOTOS = Path(__file__).parents[2] / "frontend" / "src" / "assets" / "photos"


def answer(rgba: bytes, count: int) -> dict[str, Any]:
    return {
        "swatches": [asdict(swatch) for swatch in dominant_colors(rgba, count)],
        "luminance": average_luminance(rgba),
    }


def colours(*pixels: tuple[int, int, int, int], count: int = 6) -> list[tuple[str, int]]:
    rgba = np.array(pixels, np.uint8)
    return [(swatch.hex, swatch.count) for swatch in dominant_colors(rgba, count)]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_it_agrees_with_the_shared_vectors_to_the_last_bit(case: dict[str, Any]) -> None:
    rgba = zlib.decompress(base64.b64decode(case["rgbaDeflated"]))
    assert answer(rgba, case["count"]) == {"swatches": case["swatches"], "luminance": case["luminance"]}


def test_a_flat_image_is_exactly_its_colour() -> None:
    assert colours(*[(18, 52, 86, 255)] * 100) == [("#123456", 100)]


def test_two_colours_of_one_bin_stay_two() -> None:
    assert colours((8, 8, 8, 255), (9, 9, 9, 255), (9, 9, 9, 255)) == [("#090909", 2), ("#080808", 1)]


def test_a_pixel_below_half_opacity_is_no_colour() -> None:
    assert colours((255, 0, 0, 127), (0, 0, 255, 128)) == [("#0000ff", 1)]
    assert colours((255, 0, 0, 127)) == []
    assert average_luminance(bytes([255, 0, 0, 127])) == 0


def test_nothing_gives_nothing() -> None:
    assert dominant_colors(b"") == []
    assert average_luminance(b"") == 0


def test_black_is_zero_and_white_is_one() -> None:
    assert average_luminance(bytes([0, 0, 0, 255] * 7)) == 0
    assert average_luminance(bytes([255, 255, 255, 255] * 7)) == 1


@pytest.mark.parametrize("count", [0, -1, 257])
def test_a_senseless_count_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="count must be"):
        dominant_colors(bytes(4), count)


def test_half_a_pixel_is_refused() -> None:
    with pytest.raises(ValueError, match="whole RGBA pixels"):
        dominant_colors(bytes(6))


def test_an_array_that_is_not_contiguous_is_read_right() -> None:
    image = np.zeros((4, 4, 4), np.uint8)
    image[..., 3] = 255
    image[:, ::2, 0] = 200
    assert [(s.hex, s.count) for s in dominant_colors(image[:, ::2])] == [("#c80000", 8)]


@pytest.fixture(scope="module")
def twin() -> Iterator[NodeTwin]:
    if not NodeTwin.available():
        pytest.skip("Node and the front end's packages are needed to ask palette.ts")
    with NodeTwin() as twin:
        yield twin


@st.composite
def images(draw: st.DrawFn) -> bytes:
    """From a handful of pixels to more distinct colours than are kept exactly; flat, clustered or noise."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pixels = draw(st.sampled_from([1, 7, 100, 3000, 5000, 20_000]))
    centres = random.uniform(0, 255, (draw(st.integers(1, 12)), 3))
    spread = draw(st.sampled_from([0.0, 0.6, 4.0, 15.0, 60.0]))
    shades = centres[random.integers(0, len(centres), pixels)] + random.normal(0, spread, (pixels, 3))
    alpha = draw(st.sampled_from([0, 120, 255]))
    opacity = random.integers(alpha, 256, (pixels, 1))
    return np.hstack([np.clip(shades, 0, 255), opacity]).astype(np.uint8).tobytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rgba=images(), count=st.sampled_from([1, 2, 3, 6, 6, 6, 10, 32]))
def test_it_agrees_with_the_browser_on_any_image(twin: NodeTwin, rgba: bytes, count: int) -> None:
    assert answer(rgba, count) == twin.answer(rgba, count)


@pytest.mark.parametrize("photo", ["astronaut.jpg", "chelsea.jpg", "coffee.jpg"])
def test_it_agrees_with_the_browser_on_the_bundled_photographs(twin: NodeTwin, photo: str) -> None:
    image = pytest.importorskip("PIL.Image")
    rgba = image.open(PHOTOS / photo).convert("RGBA").tobytes()
    assert answer(rgba, 6) == twin.answer(rgba, 6)
