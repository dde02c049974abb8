"""Which pictures are worth showing to a model, and how are they made small enough for it?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import cast

from PIL import Image, ImageOps, UnidentifiedImageError

from shared.ingest.document import Content, Page, PageImage, UnreadableDocument

SIDE = 1024  # pixels of the longer side
SMALLEST = 64  # pixels a side; below are icons, lines and bullets
BYTES = 400_000
MOST = 20  # pictures of one file
PIXELS = 64_000_000
"""The most pixels of a picture before it is made smaller: three bytes each while it is open."""

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_TOO_MANY = f"It is a picture of more than {PIXELS // 10**6} million pixels."
_QUALITIES = (85, 70, 50, 30)


def picture_file(path: Path) -> Content:
    """An image file: one page that has only this picture. Of an animation it is the first frame."""
    with _translated(), Image.open(path, formats=FORMATS) as image:
        if max(image.size) < SMALLEST or min(image.size) < 2:
            raise UnreadableDocument(f"It is a picture of less than {SMALLEST} pixels a side.")
        if not is_safe(image.size):
            raise UnreadableDocument(_TOO_MANY)
        data = encoded(image)
        if _is_blank(image):
            raise UnreadableDocument("It shows nothing.")
        return Content((Page("", pictures=(PageImage(data, path.name),)),))


def is_safe(size: tuple[int, int]) -> bool:
    """Whether a picture of this size can be opened without filling the memory."""
    return 0 < size[0] * size[1] <= PIXELS


def is_worth(size: tuple[int, int]) -> bool:
    """Whether a picture within a document says anything, by its size."""
    return min(size) >= SMALLEST and is_safe(size)


def encoded(image: Image.Image) -> bytes:
    """A picture as PNG, or JPEG where that is much smaller, within `SIDE` and `BYTES`."""
    if image.format == "JPEG":
        image.draft("RGB", (SIDE, SIDE))  # Decodes at an eighth where that will do.
    image.thumbnail((SIDE, SIDE))
    upright = _opaque(ImageOps.exif_transpose(image) or image)
    drawn = _saved(upright, "PNG", optimize=True)
    photos = (_saved(upright, "JPEG", quality=quality) for quality in _QUALITIES)
    photo = next((data for data in photos if len(data) <= BYTES), b"")
    # Lines and letters are sharp in a PNG; a photograph takes several times as much in it.
    return drawn if len(drawn) <= min(BYTES, 2 * len(photo)) or not photo else photo


def _opaque(image: Image.Image) -> Image.Image:
    """On white, as on a page: what is transparent may be black underneath."""
    if image.mode in ("RGB", "L"):
        return image
    if image.mode.startswith(("I", "F")):
        return _eight_bits(image)
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Finer greys, as of an X-ray, from the darkest to the lightest that there is."""
    fine = image.convert("F")
    low, high = cast(tuple[float, float], fine.getextrema())
    scale = 255 / (high - low or 1)
    return fine.point(lambda grey: grey * scale - low * scale).convert("L")


def _saved(image: Image.Image, form: str, **options: int | bool) -> bytes:
    buffer = BytesIO()
    # A new image: no place, camera or owner of the original comes along.
    bare = Image.new(image.mode, image.size)
    bare.paste(image)
    bare.save(buffer, form, **options)
    return buffer.getvalue()


class ImageCollector:
    """The pictures of one document: no repeats, as of a logo, and not more than `MOST`."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._kept = 0

    @property
    def full(self) -> bool:
        """Whether no more are taken."""
        return self._kept >= MOST

    def is_new(self, key: bytes) -> bool:
        """Whether `key`, of a picture's source or of the picture itself, is met the first time."""
        known = key in self._seen
        self._seen.add(key)
        return not known

    def take(self, image: Image.Image, name: str) -> Iterator[PageImage]:
        """The picture, unless it is of one colour or was taken before."""
        data = encoded(image)
        if not _is_blank(image) and self.is_new(sha256(data).digest()):
            self._kept += 1
            yield PageImage(data, name)


def _is_blank(image: Image.Image) -> bool:
    return _opaque(image).getcolors(1) is not None


@contextmanager
def _translated() -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ours is the limit of pixels, and its words.
            yield
    except Image.DecompressionBombError as error:
        raise UnreadableDocument(_TOO_MANY) from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise UnreadableDocument("It is a damaged picture.") from error
