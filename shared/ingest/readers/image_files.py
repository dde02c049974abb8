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

MAX_SIDE = 1024  # pixels of the longer side
MIN_SIDE = 64  # pixels a side; below are icons, lines and bullets
MAX_BYTES = 400_000
MAX_IMAGES = 20  # pictures of one file
MAX_PIXELS = 64_000_000
"""The most pixels of a picture before it is made smaller: three bytes each while it is open."""

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_TOO_MANY_PIXELS = f"It is a picture of more than {MAX_PIXELS // 10**6} million pixels."
_QUALITIES = (85, 70, 50, 30)


def read_image(path: Path) -> Content:
    """An image file: one page that has only this picture. Of an animation it is the first frame."""
    with _map_errors(), Image.open(path, formats=FORMATS) as image:
        if max(image.size) < MIN_SIDE or min(image.size) < 2:
            raise UnreadableDocument(f"It is a picture of less than {MIN_SIDE} pixels a side.")
        if not is_safe_size(image.size):
            raise UnreadableDocument(_TOO_MANY_PIXELS)
        data = encode_image(image)
        if _is_blank(image):
            raise UnreadableDocument("It shows nothing.")
        return Content((Page("", images=(PageImage(data, path.name),)),))


def is_safe_size(size: tuple[int, int]) -> bool:
    """Whether a picture of this size can be opened without filling the memory."""
    return 0 < size[0] * size[1] <= MAX_PIXELS


def is_useful_size(size: tuple[int, int]) -> bool:
    """Whether a picture within a document says anything, by its size."""
    return min(size) >= MIN_SIDE and is_safe_size(size)


def encode_image(image: Image.Image) -> bytes:
    """A picture as PNG, or JPEG where that is much smaller, within `MAX_SIDE` and `MAX_BYTES`."""
    if image.format == "JPEG":
        image.draft("RGB", (MAX_SIDE, MAX_SIDE))  # Decodes at an eighth where that will do.
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    upright = _remove_transparency(ImageOps.exif_transpose(image) or image)
    drawn = _save(upright, "PNG", optimize=True)
    photos = (_save(upright, "JPEG", quality=quality) for quality in _QUALITIES)
    photo = next((data for data in photos if len(data) <= MAX_BYTES), b"")
    # Lines and letters are sharp in a PNG; a photograph takes several times as much in it.
    return drawn if len(drawn) <= min(MAX_BYTES, 2 * len(photo)) or not photo else photo


def _remove_transparency(image: Image.Image) -> Image.Image:
    """On white, as on a page: what is transparent may be black underneath."""
    if image.mode in ("RGB", "L"):
        return image
    if image.mode.startswith(("I", "F")):
        return _to_eight_bits(image)
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """Finer greys, as of an X-ray, from the darkest to the lightest that there is."""
    fine = image.convert("F")
    low, high = cast(tuple[float, float], fine.getextrema())
    scale = 255 / (high - low or 1)
    return fine.point(lambda grey: grey * scale - low * scale).convert("L")


def _save(image: Image.Image, form: str, **options: int | bool) -> bytes:
    buffer = BytesIO()
    # A new image: no place, camera or owner of the original comes along.
    bare = Image.new(image.mode, image.size)
    bare.paste(image)
    bare.save(buffer, form, **options)
    return buffer.getvalue()


class ImageCollector:
    """The pictures of one document: no repeats, as of a logo, and not more than `MAX_IMAGES`."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more are taken."""
        return self._count >= MAX_IMAGES

    def is_new(self, key: bytes) -> bool:
        """Whether `key`, of a picture's source or of the picture itself, is met the first time."""
        known = key in self._seen
        self._seen.add(key)
        return not known

    def collect(self, image: Image.Image, name: str) -> Iterator[PageImage]:
        """The picture, unless it is of one colour or was taken before."""
        data = encode_image(image)
        if not _is_blank(image) and self.is_new(sha256(data).digest()):
            self._count += 1
            yield PageImage(data, name)


def _is_blank(image: Image.Image) -> bool:
    return _remove_transparency(image).getcolors(1) is not None


@contextmanager
def _map_errors() -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ours is the limit of pixels, and its words.
            yield
    except Image.DecompressionBombError as error:
        raise UnreadableDocument(_TOO_MANY_PIXELS) from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise UnreadableDocument("It is a damaged picture.") from error
