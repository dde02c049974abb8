"""The documents as MCP has them: what a citation names, its text, its URL and its URI."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from shared.domain.errors import NotFound
from shared.domain.events import Source, decode_path, encode_path
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.http.call import Json
from shared.protocols.context_json import file_url, source_url
from shared.retrieval.base import FilePart, Retriever, can_be_indexed

SCHEME = "document:///"
TEXT_TYPE = "text/plain"  # of each resource: the text that the index has, of any kind of file
MAX_TEXT = 60_000  # characters of a document: some clients take no more than 25,000 tokens
# Characters of an id or a URI that names a document: to decode longer ones takes seconds.
MAX_ID = 25_000
NO_DOCUMENT = "There is no such document. Take an id from the results of search."


@dataclass(frozen=True, slots=True)
class McpConfig:
    """What the deployment is for MCP's clients."""

    base_url: str = ""  # the app's own address, for absolute links; empty if unknown


def format_hits(sources: Iterable[Source], base_url: str) -> list[Json]:
    """Return one hit for each place, in order; the passages of a place are joined."""
    places: dict[str, list[Source]] = {}
    for source in sources:
        places.setdefault(source.sourcepage, []).append(source)
    return [_format_hit(id, passages, base_url) for id, passages in places.items()]


def _format_hit(id: str, passages: Sequence[Source], base_url: str) -> Json:
    first = passages[0]
    title = first.title or id
    text = join_texts(passages)
    url = source_url(base_url, first) if id == first.sourcepage else file_url(base_url, first)
    # An index of another tool may lack the URL or the text of a passage.
    return {"id": id, "title": title, "url": url or to_uri(id), "text": text or title}


def join_texts(passages: Iterable[Source]) -> str:
    """Join the texts of passages, with an empty line between two of them."""
    return "\n\n".join(text for each in passages if (text := each.content.strip()))


def format_document(id: str, passages: Sequence[Source], base_url: str) -> Json:
    """Return a hit with the text of all passages, cut to `MAX_TEXT`, and what it is part of."""
    hit, first = _format_hit(id, passages, base_url), passages[0]
    category = {"category": first.category} if first.category else {}
    truncated = "true" if len(hit["text"]) > MAX_TEXT else "false"
    metadata = {"document": first.sourcefile, **category, "truncated": truncated}
    return {**hit, "text": hit["text"][:MAX_TEXT], "metadata": metadata}


async def find_passages(
    retriever: Retriever, user: User, id: str, overrides: Overrides
) -> tuple[Source, ...]:
    """Return the passages of a place, or of a file, that the user may see. Raises NotFound."""
    if len(id) > MAX_ID:
        raise NotFound(NO_DOCUMENT)
    file, mark, page = id.rpartition("#")
    place = decode_path(id)
    sourcepage = f"{encode_path(decode_path(file))}#{encode_path(decode_path(page))}"
    names = (file, id) if mark else (id,)  # another tool's file may have a # in its name
    for name in filter(can_be_indexed, names):
        part = FilePart(sourcepage if name != id else None, MAX_TEXT + 1)
        passages = await retriever.list_passages(user, name, overrides, part)
        if name != id:
            passages = tuple(each for each in passages if decode_path(each.sourcepage) == place)
        if passages:
            return passages
    raise NotFound(NO_DOCUMENT)


def to_uri(id: str) -> str:
    """Return the URI of a place or a file."""
    file, mark, place = id.partition("#")
    return SCHEME + quote(decode_path(file)) + mark + quote(decode_path(place), safe="=&/")


def to_id(uri: str) -> str:
    """Return the citation of a URI that begins with `SCHEME`. The path is decoded once."""
    file, mark, place = uri.removeprefix(SCHEME).partition("#")
    return encode_path(unquote(file)) + mark + encode_path(unquote(place))
