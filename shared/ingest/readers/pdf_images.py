"""Which pictures does a page of a PDF draw? One that is broken is left out, and nothing else."""

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
    page: PageObject, drawn: XObjectNames, gallery: ImageCollector
) -> Iterator[PageImage]:
    """The pictures that a page draws by one of the names `drawn`, and that the gallery takes."""
    if not drawn:
        return
    for name, stream in _image_streams(page.get("/Resources"), drawn, _MAX_DEPTH):
        if gallery.is_full:
            return
        # The same object is drawn on many pages: it is unpacked once.
        if gallery.is_new(repr(stream.indirect_reference or name).encode()):
            yield from _decode_image(stream, name, gallery)


def _image_streams(
    resources: Any, drawn: XObjectNames, depth: int
) -> Iterator[tuple[str, StreamObject]]:
    """The images of a page and of the forms on it, those of a sensible size."""
    for name, stream in _xobjects(resources):
        if name not in drawn or not isinstance(stream, StreamObject):
            continue
        if stream.get("/Subtype") == "/Form" and depth:
            yield from _image_streams(stream.get("/Resources"), drawn, depth - 1)
        elif stream.get("/Subtype") == "/Image" and is_useful_size(_size(stream)):
            yield name.lstrip("/"), stream


def _xobjects(resources: Any) -> Iterator[tuple[str, Any]]:
    held = resources.get_object() if resources is not None else None
    named = held.get("/XObject") if isinstance(held, DictionaryObject) else None
    objects = named.get_object() if named is not None else None
    if isinstance(objects, DictionaryObject):
        yield from ((name, objects[name]) for name in objects)


def _size(stream: StreamObject) -> tuple[int, int]:
    sides = (stream.get("/Width"), stream.get("/Height"))
    width, height = (side if isinstance(side, int) else 0 for side in sides)
    return width, height


def _decode_image(
    stream: StreamObject, name: str, gallery: ImageCollector
) -> tuple[PageImage, ...]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = stream.decode_as_image()
            return tuple(gallery.collect(image, name)) if isinstance(image, Image.Image) else ()
    except Exception:  # Whatever a broken picture breaks, the page's text is read.
        return ()
