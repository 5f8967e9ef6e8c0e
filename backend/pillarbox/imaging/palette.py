"""The representative palette and the luminance of an image, from its RGBA bytes alone.

The twin of frontend/src/lib/workers/palette.ts (with color-points.ts and oklab.ts), and the two agree to the
last bit: only correctly rounded operations (+ − × ÷ √), each float sum in one fixed order. So float sums go
through `bincount` and `cumsum`, which add one after the other; `np.sum` adds pairwise and must not be used
on them. Change one, change the other.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

_Floats: TypeAlias = npt.NDArray[np.float64]
_Integers: TypeAlias = npt.NDArray[np.int64]

MAX_SWATCHES: Final = 256
_OPAQUE: Final = 128
_EXACT_COLORS: Final = 4096
_BINS: Final = 32 * 32 * 32
_CHUNK: Final = 1 << 18
_SLABS: Final = 64
_REFINEMENTS: Final = 6
_CHROMA: Final = 2.0


@dataclass(frozen=True, slots=True)
class Swatch:
    """One colour of a palette: `count` pixels, `share` of the opaque ones."""

    r: int
    g: int
    b: int
    hex: str
    count: int
    share: float


def dominant_colors(pixels: bytes | npt.NDArray[np.uint8], count: int = 6) -> list[Swatch]:
    """At most `count` colours that stand for the image with little error, largest share first.

    `count` or fewer distinct colours come back exactly as they are; no opaque pixel gives an empty list.
    """
    if not 1 <= count <= MAX_SWATCHES:
        raise ValueError(f"count must be from 1 to {MAX_SWATCHES}, not {count}")
    points = _count_colors(_opaque_words(pixels))
    size = len(points)
    if size <= count:
        labels = np.arange(size)
    else:
        coordinates = _to_oklab(points)
        labels = _refine(points[:, 0], coordinates, *_cut(points[:, 0], coordinates, count))
    return _to_swatches(points, labels, count)


def average_luminance(pixels: bytes | npt.NDArray[np.uint8]) -> float:
    """WCAG relative luminance, averaged in linear light over the opaque pixels; 0 when there are none."""
    words = _opaque_words(pixels)
    if words.size == 0:
        return 0.0
    means: list[float] = []
    for shift in (0, 8, 16):
        histogram = np.bincount((words >> shift) & 255, minlength=256)
        means.append(float(np.cumsum(histogram * _LINEAR)[-1]) / words.size)
    return 0.2126 * means[0] + 0.7152 * means[1] + 0.0722 * means[2]


def _opaque_words(pixels: bytes | npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """The opaque pixels as 0xAABBGGRR."""
    flat = np.frombuffer(pixels, np.uint8) if isinstance(pixels, bytes) else pixels.reshape(-1)
    if flat.size % 4:
        raise ValueError(f"{flat.size} bytes are not whole RGBA pixels")
    words = np.ascontiguousarray(flat).view("<u4")
    opaque = words >= _OPAQUE << 24
    return words if opaque.all() else words[opaque]


def _count_colors(words: npt.NDArray[np.uint32]) -> _Floats:
    """A row a point, ascending by red, green, blue: pixels, sum of red, of green, of blue; all exact."""
    # A look at some pixels from all over spares most photographs the sort.
    sample = words[:: max(1, len(words) // (4 * _EXACT_COLORS))]
    if len(np.unique(sample & 0xFFFFFF)) <= _EXACT_COLORS:
        keys, counts = np.unique(words & 0xFFFFFF, return_counts=True)
        if len(keys) <= _EXACT_COLORS:
            channels = np.stack([keys & 255, (keys >> 8) & 255, keys >> 16], axis=1).astype(np.float64)
            points = np.column_stack([counts.astype(np.float64), counts[:, None] * channels])
            return points[np.lexsort(channels.T[::-1])]
    return _bin_points(words)


def _bin_points(words: npt.NDArray[np.uint32]) -> _Floats:
    """Two sums in each double, 26 bits apart: in chunks so short that both stay exact."""
    sums = np.zeros((4, _BINS), np.int64)
    for start in range(0, len(words), _CHUNK):
        chunk = words[start : start + _CHUNK].astype(np.int64)
        bins = ((chunk & 0xF8) << 7) | ((chunk >> 6) & 0x3E0) | ((chunk >> 19) & 0x1F)
        green_and_red = ((chunk & 0xFF00) << 18) | (chunk & 0xFF)
        one_and_blue = (1 << 26) | ((chunk >> 16) & 0xFF)
        for upper, lower, packed in ((0, 3, one_and_blue), (2, 1, green_and_red)):
            pair = np.bincount(bins, weights=packed, minlength=_BINS).astype(np.int64)
            sums[upper] += pair >> 26
            sums[lower] += pair & 0x3FFFFFF
    return sums[:, sums[0] > 0].T.astype(np.float64, order="C")


def _mean(sums: _Floats, pixels: _Floats) -> _Integers:
    """Nearest integer, halves up."""
    return np.floor(sums / pixels + 0.5).astype(np.int64)


def _fifth_root(value: float) -> float:
    root = 1.0
    for _ in range(12):
        square = root * root
        root = (4 * root + value / (square * square)) / 5
    return root


def _linear(value: int) -> float:
    encoded = value / 255
    if encoded <= 0.04045:
        return encoded / 12.92
    base = (encoded + 0.055) / 1.055
    square = base * base
    return square * _fifth_root(square)


_LINEAR: Final = np.array([_linear(value) for value in range(256)])


def _cube_root(value: _Floats) -> _Floats:
    quarter = np.sqrt(np.sqrt(value))
    root = quarter * np.sqrt(np.sqrt(quarter))
    for _ in range(2):
        cube = root * root * root
        root = np.divide(root * (cube + 2 * value), 2 * cube + value, out=root * 0, where=value != 0)
    return root


def _to_oklab(points: _Floats) -> _Floats:
    """A row an axis (not a point): each is worked on alone, and then it is contiguous."""
    red, green, blue = (_LINEAR[_mean(points[:, field], points[:, 0])] for field in (1, 2, 3))
    long = _cube_root(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    middle = _cube_root(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = _cube_root(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return np.stack(
        [
            0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * short,
            _CHROMA * (1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * short),
            _CHROMA * (0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * short),
        ]
    )


@dataclass(frozen=True, slots=True)
class _Box:
    members: _Integers
    gain: float
    lower: npt.NDArray[np.bool_] | None


def _cut(weights: _Floats, coordinates: _Floats, count: int) -> tuple[_Integers, int]:
    """Wu's idea: cut, again and again, the box whose best cut removes the most variance."""
    boxes = [_best_cut(weights, coordinates, np.arange(len(weights)))]
    while len(boxes) < count:
        index = max(range(len(boxes)), key=lambda candidate: boxes[candidate].gain)
        box = boxes[index]
        if box.lower is None:
            break
        boxes[index] = _best_cut(weights, coordinates, box.members[box.lower])
        boxes.append(_best_cut(weights, coordinates, box.members[~box.lower]))
    labels = np.empty(len(weights), np.int64)
    for label, box in enumerate(boxes):
        labels[box.members] = label
    return labels, len(boxes)


def _best_cut(weights: _Floats, coordinates: _Floats, members: _Integers) -> _Box:
    """The plane across the most varied axis, among the slabs' borders, that leaves the least variance."""
    uncut = _Box(members, 0.0, None)
    own_weights, own_coordinates = weights[members], coordinates[:, members]
    values = own_coordinates[_most_varied(own_weights, own_coordinates)]
    low, high = values.min(), values.max()
    if low == high:
        return uncut
    slabs = np.minimum(_SLABS - 1, np.floor((values - low) * (_SLABS / (high - low)))).astype(np.int64)
    sums = np.cumsum(_moments(slabs, own_weights, own_coordinates, _SLABS), axis=1)
    total = sums[:, -1:]
    # The first slab holds `low`, so only the upper side can be empty.
    below = sums[:, : np.searchsorted(sums[0], total[0, 0])]
    gains = _spread(below) + _spread(total - below) - _spread(total)
    if not gains.size or gains.max() <= 0:
        return uncut
    return _Box(members, float(gains.max()), slabs <= int(gains.argmax()))


def _most_varied(weights: _Floats, coordinates: _Floats) -> int:
    pixels = weights.cumsum()[-1]
    moments = coordinates * weights
    sums = moments.cumsum(axis=1)[:, -1]
    squares = (moments * coordinates).cumsum(axis=1)[:, -1]
    return int(np.argmax(squares - (sums * sums) / pixels))


def _moments(groups: _Integers, weights: _Floats, coordinates: _Floats, size: int) -> _Floats:
    """Of each group: pixels, and pixels × each coordinate, added in the order of the points."""
    return np.stack(
        [
            np.bincount(groups, weights=moment, minlength=size).astype(np.float64, copy=False)
            for moment in (weights, *(weights * axis for axis in coordinates))
        ]
    )


def _spread(sums: _Floats) -> _Floats:
    """|Σwx|² ÷ Σw: the larger, the less variance is left."""
    pixels, x, y, z = sums
    return (x * x + y * y + z * z) / pixels


def _refine(weights: _Floats, coordinates: _Floats, labels: _Integers, clusters: int) -> _Integers:
    """Weighted k-means: each centre to the mean of its points, each point to its nearest centre."""
    centers = np.zeros((3, clusters))
    for _ in range(_REFINEMENTS):
        sums = _moments(labels, weights, coordinates, clusters)
        # A cluster that lost all its points keeps its centre.
        centers = np.divide(sums[1:], sums[0], out=centers, where=sums[0] != 0)
        least = np.full(len(weights), np.inf)
        nearest = np.zeros(len(weights), np.int64)
        for cluster in range(clusters):
            x, y, z = coordinates - centers[:, cluster, None]
            distance = x * x + y * y + z * z
            closer = distance < least
            least[closer] = distance[closer]
            nearest[closer] = cluster
        if np.array_equal(nearest, labels):
            break
        labels = nearest
    return labels


def _to_swatches(points: _Floats, labels: _Integers, clusters: int) -> list[Swatch]:
    """The exact mean of each cluster's pixels; clusters that round to the same colour are one swatch."""
    sums = np.stack([np.bincount(labels, weights=field, minlength=clusters) for field in points.T], axis=1)
    sums = sums[sums[:, 0] > 0]
    counts: dict[tuple[int, int, int], int] = {}
    for pixels, *channels in sums:
        red, green, blue = (int(_mean(channel, pixels)) for channel in channels)
        counts[red, green, blue] = counts.get((red, green, blue), 0) + int(pixels)
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return [Swatch(r, g, b, f"#{r:02x}{g:02x}{b:02x}", n, n / total) for (r, g, b), n in ordered]
