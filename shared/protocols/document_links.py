"""Links to the documents behind citations."""

from __future__ import annotations

from urllib.parse import quote

from shared.domain.citation_paths import encode_path
from shared.domain.events import Source


def source_url(base_url: str, source: Source) -> str:
    """Return the URL of a passage: the one in the index, if it has any, else this app's route.

    Empty for an index whose passage has no web address.
    """
    if source.url is not None:
        return source.url
    file, _, place = source.sourcepage.partition("#")
    if file in (source.sourcefile, encode_path(source.sourcefile)):
        file = source.sourcefile
    elif source.sourcepage.startswith(source.sourcefile):  # its name has a # in it
        file, place = source.sourcefile, source.sourcepage[len(source.sourcefile) + 1 :]
    else:
        file, place = source.sourcepage, ""
    fragment = f"#{quote(place, safe='=&')}" if place else ""
    return f"{base_url}/content/{quote(file)}{fragment}"


def file_url(base_url: str, source: Source) -> str:
    """Return the URL of the whole file of a passage."""
    return source_url(base_url, source).partition("#")[0]
