"""One measured figure, and how a list of them is shown and kept."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

LATEST = Path(__file__).parent / "latest.json"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of ours, beside a peer's where there is one. `ratio` is ours through theirs."""

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None


def beside(name: str, value: float, unit: str, peer: str, peer_value: float) -> Figure:
    """A figure with its peer's and the ratio of both."""
    return Figure(
        name=name, value=value, unit=unit, peer=peer, peer_value=peer_value, ratio=value / peer_value
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that `percent` of a hundred do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def table(figures: Sequence[Figure]) -> str:
    """The figures as aligned text."""
    header = ("figure", "value", "unit", "peer", "peer's", "ratio")
    rows = [
        (
            figure.name,
            _number(figure.value),
            figure.unit,
            figure.peer or "",
            _number(figure.peer_value),
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    right = {1, 4, 5}
    lines = [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, tuple("-" * width for width in widths), *rows]
    ]
    return "\n".join(lines)


def keep(figures: Sequence[Figure]) -> None:
    """Write the figures where the next reader looks for them."""
    LATEST.write_bytes(msgspec.json.format(msgspec.json.encode(list(figures)), indent=2) + b"\n")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
