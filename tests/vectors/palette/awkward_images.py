"""Images as users really have them, made here, each with what the page owes for it."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageCms

RED, BLUE, GREEN = (200, 30, 40), (20, 60, 180), (30, 140, 60)


@dataclass(frozen=True, slots=True)
class AwkwardImage:
    """`colours`: the swatches in order, to within `tolerance` a channel; `error`: an AnalysisError code."""

    content: bytes
    file_name: str
    colours: tuple[tuple[int, int, int], ...] = ()
    size: tuple[int, int] | None = None
    error: str | None = None
    tolerance: int = 6


def awkward_images() -> dict[str, AwkwardImage]:
    """By what is awkward about them."""
    return {name: make() for name, make in _MAKERS.items()}


def _two_tone(width: int = 60, height: int = 30) -> Image.Image:
    """Two thirds red on the left, blue on the right."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width * 2 // 3, 0, width, height))
    return image


def _encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _exif_orientation() -> AwkwardImage:
    image = _two_tone()
    exif = image.getexif()
    exif[0x0112] = 6
    return AwkwardImage(_encoded(image, "JPEG", quality=95, exif=exif), "turned.jpg", (RED, BLUE), (30, 60))


def _cmyk_jpeg() -> AwkwardImage:
    # Without a profile every reader converts CMYK in its own way: near is all that can be asked.
    content = _encoded(_two_tone().convert("CMYK"), "JPEG", quality=95)
    return AwkwardImage(content, "print.jpg", (RED, BLUE), (60, 30), tolerance=40)


def _sixteen_bit_png() -> AwkwardImage:
    ramp = np.full((30, 60), 0x4040, np.uint16)
    ramp[:, 40:] = 0xC0C0
    return AwkwardImage(
        _encoded(Image.fromarray(ramp), "PNG"), "deep.png", ((64, 64, 64), (192, 192, 192)), (60, 30)
    )


def _palette_png() -> AwkwardImage:
    image = _two_tone().quantize(4)
    return AwkwardImage(_encoded(image, "PNG"), "indexed.png", (RED, BLUE), (60, 30))


def _alpha_png() -> AwkwardImage:
    image = _two_tone().convert("RGBA")
    image.paste((*GREEN, 0), (0, 0, 20, 30))
    return AwkwardImage(_encoded(image, "PNG"), "cut-out.png", (BLUE, RED), (60, 30))


def _transparent_png() -> AwkwardImage:
    return AwkwardImage(_encoded(Image.new("RGBA", (9, 9), (255, 0, 0, 0)), "PNG"), "nothing.png", (), (9, 9))


def _animated(kind: str, name: str) -> AwkwardImage:
    frames = [_two_tone(), Image.new("RGB", (60, 30), GREEN)]
    options = {"lossless": True} if kind == "WEBP" else {}
    content = _encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=90, **options)
    return AwkwardImage(content, name, (RED, BLUE), (60, 30))


def _wide_gamut() -> AwkwardImage:
    # The profile swaps nothing visible; what is asked is that an image with a profile is read at all.
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return AwkwardImage(
        _encoded(_two_tone(), "PNG", icc_profile=profile), "profile.png", (RED, BLUE), (60, 30)
    )


def _svg(attributes: str, name: str) -> AwkwardImage:
    red, blue = ("#" + bytes(colour).hex() for colour in (RED, BLUE))
    drawing = (
        f'<rect width="60" height="30" fill="{red}"/><rect x="40" width="20" height="30" fill="{blue}"/>'
    )
    content = f'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" {attributes}>{drawing}</svg>'
    return AwkwardImage(content.encode(), name, (RED, BLUE), (720, 360))


def _styled_svg() -> AwkwardImage:
    red, blue = ("#" + bytes(colour).hex() for colour in (RED, BLUE))
    content = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 30" style="width:100%;height:auto">'
        f"<style>.a{{fill:{red}}}</style><path class='a' d='M0 0h60v30H0z'/>"
        f"<path style='fill:{blue}' d='M40 0h20v30H40z'/></svg>"
    )
    return AwkwardImage(content.encode(), "styled.svg", (RED, BLUE), (720, 360))


def _one_pixel() -> AwkwardImage:
    return AwkwardImage(
        _encoded(Image.new("RGB", (1, 1), RED), "PNG"), "dot.png", (RED,), (1, 1), tolerance=0
    )


def _sliver() -> AwkwardImage:
    return AwkwardImage(_encoded(Image.new("RGB", (9000, 1), RED), "PNG"), "sliver.png", (RED,), (9000, 1))


def _hundred_megapixels() -> AwkwardImage:
    content = _encoded(Image.new("RGB", (10_000, 10_000), GREEN), "JPEG", quality=60)
    return AwkwardImage(content, "poster.jpg", (GREEN,), (10_000, 10_000))


def _beyond_the_limit() -> AwkwardImage:
    content = _encoded(Image.new("1", (40_000, 40_000)), "PNG")
    return AwkwardImage(content, "bomb.png", error="too-large")


def _encoded_as(kind: str, name: str) -> AwkwardImage:
    return AwkwardImage(_encoded(_two_tone(), kind), name, (RED, BLUE), (60, 30))


def _truncated(kind: str, name: str) -> AwkwardImage:
    noise = np.random.default_rng(1).integers(0, 256, (90, 90, 3), dtype=np.uint8)
    content = _encoded(Image.fromarray(noise), kind)
    return AwkwardImage(content[: len(content) // 2], name, error="damaged")


def _corrupt_png() -> AwkwardImage:
    content = bytearray(_encoded(_two_tone(), "PNG"))
    data = content.index(b"IDAT") + 4
    content[data : data + 12] = bytes(12)
    return AwkwardImage(bytes(content), "corrupt.png", error="damaged")


_MAKERS: dict[str, Callable[[], AwkwardImage]] = {
    "EXIF orientation": _exif_orientation,
    "CMYK JPEG": _cmyk_jpeg,
    "16-bit PNG": _sixteen_bit_png,
    "palette PNG": _palette_png,
    "alpha": _alpha_png,
    "nothing opaque": _transparent_png,
    "animated GIF": lambda: _animated("GIF", "moving.gif"),
    "animated WebP": lambda: _animated("WEBP", "moving.webp"),
    "colour profile": _wide_gamut,
    "SVG": lambda: _svg('width="60" height="30"', "drawing.svg"),
    "SVG with a viewBox alone": lambda: _svg('viewBox="0 0 60 30"', "drawing.svg"),
    "SVG in per cent": lambda: _svg('width="100%" height="100%" viewBox="0 0 60 30"', "drawing.svg"),
    "SVG with styles": _styled_svg,
    "SVG not well-formed": lambda: AwkwardImage(b"<svg xmlns='x'><g></svg>", "broken.svg", error="damaged"),
    "BMP": lambda: _encoded_as("BMP", "old.bmp"),
    "AVIF": lambda: _encoded_as("AVIF", "new.avif"),
    "1×1": _one_pixel,
    "9000×1": _sliver,
    "100 megapixels": _hundred_megapixels,
    "1600 megapixels": _beyond_the_limit,
    "TIFF": lambda: AwkwardImage(_encoded(_two_tone(), "TIFF"), "scan.tif", error="unsupported"),
    "zero bytes": lambda: AwkwardImage(b"", "empty.png", error="empty"),
    "text named .png": lambda: AwkwardImage(b"This is not an image.\n" * 9, "text.png", error="not-an-image"),
    "HTML named .jpg": lambda: AwkwardImage(
        b"<!doctype html><title>404</title>", "x.jpg", error="not-an-image"
    ),
    "truncated JPEG": lambda: _truncated("JPEG", "torn.jpg"),
    "truncated PNG": lambda: _truncated("PNG", "torn.png"),
    "truncated WebP": lambda: _truncated("WEBP", "torn.webp"),
    "truncated GIF": lambda: _truncated("GIF", "torn.gif"),
    "corrupt PNG": _corrupt_png,
}
