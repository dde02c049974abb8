"""Reads images, and encodes them within the size limits of a model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import cast

from PIL import Image, ImageOps, UnidentifiedImageError

from ingest.document import Content, Page, UnreadableDocument

MAX_SIDE = 1024  # pixels of the longer side
MIN_SIDE = 64  # pixels a side; below are icons, lines and bullets
MAX_BYTES = 400_000
MAX_IMAGES = 20  # images of one file
MAX_PIXELS = 64_000_000
"""The limit of an image's pixels before scaling: each takes three bytes of memory."""

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_TOO_MANY_PIXELS = f"It is an image of more than {MAX_PIXELS // 10**6} million pixels."
_QUALITIES = (85, 70, 50, 30)


def read_image(path: Path) -> Content:
    """Read an image file as a page without text; of an animation the first frame."""
    with _map_errors(), Image.open(path, formats=FORMATS) as image:
        if max(image.size) < MIN_SIDE or min(image.size) < 2:
            raise UnreadableDocument(f"It is an image of less than {MIN_SIDE} pixels a side.")
        if not is_safe_size(image.size):
            raise UnreadableDocument(_TOO_MANY_PIXELS)
        data = encode_image(image)
        if _is_blank(image):
            raise UnreadableDocument("It shows nothing.")
        return Content((Page("", images=(data,)),))


def is_safe_size(size: tuple[int, int]) -> bool:
    """Whether an image of this size fits in memory."""
    return 0 < size[0] * size[1] <= MAX_PIXELS


def is_useful_size(size: tuple[int, int]) -> bool:
    """Whether an image in a document is large enough to have content."""
    return min(size) >= MIN_SIDE and is_safe_size(size)


def encode_image(image: Image.Image) -> bytes:
    """Encode as PNG, or JPEG where that is much smaller, within `MAX_SIDE` and `MAX_BYTES`."""
    if image.format == "JPEG":
        image.draft("RGB", (MAX_SIDE, MAX_SIDE))  # decodes at a lower resolution
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    upright = _remove_transparency(ImageOps.exif_transpose(image) or image)
    png = _save(upright, "PNG", optimize=True)
    jpegs = (_save(upright, "JPEG", quality=quality) for quality in _QUALITIES)
    jpeg = next((data for data in jpegs if len(data) <= MAX_BYTES), b"")
    # Drawings and text are sharper in a PNG; a photograph is several times as large in it.
    return png if len(png) <= min(MAX_BYTES, 2 * len(jpeg)) or not jpeg else jpeg


def _remove_transparency(image: Image.Image) -> Image.Image:
    """Put the image on white, as transparent pixels may be black."""
    if image.mode in ("RGB", "L"):
        return image
    if image.mode.startswith(("I", "F")):
        return _to_eight_bits(image)
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """Scale finer greys, as of an X-ray, to 8 bits between the darkest and the lightest pixel."""
    fine = image.convert("F")
    low, high = cast(tuple[float, float], fine.getextrema())
    scale = 255 / (high - low or 1)
    return fine.point(lambda grey: grey * scale - low * scale).convert("L")


def _save(image: Image.Image, file_format: str, **options: int | bool) -> bytes:
    buffer = BytesIO()
    # A new image has no metadata, such as location or camera.
    bare = Image.new(image.mode, image.size)
    bare.paste(image)
    bare.save(buffer, file_format, **options)
    return buffer.getvalue()


class ImageCollector:
    """Collects the images of one document without repeats, at most `MAX_IMAGES`."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._count >= MAX_IMAGES

    def is_new(self, key: bytes) -> bool:
        """Whether `key`, of an image's source or of the image itself, is new; remembers it."""
        is_seen = key in self._seen
        self._seen.add(key)
        return not is_seen

    def collect(self, image: Image.Image) -> Iterator[bytes]:
        """Yield the encoded image, unless it has only one colour or is a repeat."""
        data = encode_image(image)
        if not _is_blank(image) and self.is_new(sha256(data).digest()):
            self._count += 1
            yield data


def _is_blank(image: Image.Image) -> bool:
    return _remove_transparency(image).getcolors(1) is not None


@contextmanager
def _map_errors() -> Iterator[None]:
    try:
        # The warnings are about the number of pixels, which is checked above.
        with warnings.catch_warnings(action="ignore"):
            yield
    except Image.DecompressionBombError as error:
        raise UnreadableDocument(_TOO_MANY_PIXELS) from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise UnreadableDocument("It is a damaged image.") from error
