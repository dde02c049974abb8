"""Extracts the images that a page of a PDF draws; damaged images are skipped."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from PIL import Image
from pypdf import PageObject
from pypdf.generic import DictionaryObject, StreamObject

from shared.ingest.document import PageImage
from shared.ingest.readers.image_files import ImageCollector, is_useful_size

XObjectNames = set[str]

_MAX_DEPTH = 5  # forms within forms


def extract_images(
    page: PageObject, names: XObjectNames, collector: ImageCollector
) -> Iterator[PageImage]:
    """Yield the images that a page draws by one of `names` and that the collector accepts."""
    if not names:
        return
    for name, stream in _image_streams(page.get("/Resources"), names, _MAX_DEPTH):
        if collector.is_full:
            return
        # An object that many pages draw is decoded once.
        if collector.is_new(repr(stream.indirect_reference or name).encode()):
            yield from _decode_image(stream, name, collector)


def _image_streams(
    resources: Any, names: XObjectNames, depth: int
) -> Iterator[tuple[str, StreamObject]]:
    """Yield the images of useful size on a page and in its forms."""
    for name, stream in _xobjects(resources):
        if name not in names or not isinstance(stream, StreamObject):
            continue
        if stream.get("/Subtype") == "/Form" and depth:
            yield from _image_streams(stream.get("/Resources"), names, depth - 1)
        elif stream.get("/Subtype") == "/Image" and is_useful_size(_size(stream)):
            yield name.lstrip("/"), stream


def _xobjects(resources: Any) -> Iterator[tuple[str, Any]]:
    dictionary = resources.get_object() if resources is not None else None
    reference = dictionary.get("/XObject") if isinstance(dictionary, DictionaryObject) else None
    objects = reference.get_object() if reference is not None else None
    if isinstance(objects, DictionaryObject):
        yield from ((name, objects[name]) for name in objects)


def _size(stream: StreamObject) -> tuple[int, int]:
    sides = (stream.get("/Width"), stream.get("/Height"))
    width, height = (side if isinstance(side, int) else 0 for side in sides)
    return width, height


def _decode_image(
    stream: StreamObject, name: str, collector: ImageCollector
) -> tuple[PageImage, ...]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = stream.decode_as_image()
            return tuple(collector.collect(image, name)) if isinstance(image, Image.Image) else ()
    except Exception:  # A damaged image must not prevent reading the page's text.
        return ()
