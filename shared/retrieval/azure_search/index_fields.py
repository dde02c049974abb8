"""The fields of an index: maps hits to Sources, and builds filters and the queries of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from shared.domain.events import Source, decode_path, encode_path, escape_citation
from shared.domain.overrides import Overrides
from shared.domain.request import User

# An id of a user or a group in Entra ID. search.in() splits at commas, which no id has.
PRINCIPAL_ID = re.compile(r"[\w.@:+-]{1,128}")
# The tools of "Azure OpenAI On Your Data" store the number of a passage in either field.
CHUNK_FIELD, METADATA_FIELD = "chunk_id", "metadata"
ALTERNATIVE_CHUNK_FIELDS = {CHUNK_FIELD: METADATA_FIELD, METADATA_FIELD: CHUNK_FIELD}

PAGE_SIZE = 1000  # the service's limit of one search

_NUMBER = re.compile(r"[0-9]+")
_PHRASE_RESERVED = re.compile(r'["\\]')

Query = dict[str, Any]


@dataclass(frozen=True, slots=True)
class IndexFields:
    """The names of an index's fields; empty for a field that it does not have.

    Only indexes of other tools have `title`, `url` and `chunk`. With `chunk`, several passages
    may share a sourcepage: they are cited as `sourcepage#chunk`.
    """

    id: str = "id"
    content: str = "content"
    sourcepage: str = "sourcepage"
    sourcefile: str = "sourcefile"
    category: str = "category"
    oids: str = "oids"
    groups: str = "groups"
    embedding: str = "embedding"
    image: str = "image"
    title: str = ""
    url: str = ""
    chunk: str = ""

    @property
    def has_access_control(self) -> bool:
        """Whether the index has a field that restricts who may see a passage."""
        return bool(self.oids or self.groups)

    @property
    def is_own_schema(self) -> bool:
        """Whether the fields are those of an index that this app creates."""
        required = (self.category, self.oids, self.groups, self.embedding, self.image)
        return all(required) and not (self.title or self.url or self.chunk)

    def select_fields(self, images: bool = False) -> list[str]:
        """The fields to return with each hit: all but the vector; `image` only if requested."""
        names = [self.id, self.content, self.sourcepage, self.sourcefile, self.category]
        names += [self.oids, self.groups, self.title, self.url, self.chunk]
        return list(dict.fromkeys(filter(None, [*names, self.image if images else ""])))

    def to_source(self, hit: Mapping[str, Any]) -> Source:
        """Convert a search hit to a Source."""
        captions = hit.get("@search.captions") or ()
        page, file = self._citation_names(hit)
        return Source(
            id=self._text(hit, self.id),
            content=self._text(hit, self.content),
            sourcepage=page,
            sourcefile=file,
            category=hit.get(self.category) or None,
            oids=tuple(hit.get(self.oids) or ()),
            groups=tuple(hit.get(self.groups) or ()),
            captions=tuple(text for caption in captions if (text := caption.get("text"))),
            score=hit.get("@search.score"),
            reranker_score=hit.get("@search.rerankerScore"),
            title=self._text(hit, self.title) or None,
            url=self._url(hit),
        )

    def _citation_names(self, hit: Mapping[str, Any]) -> tuple[str, str]:
        """The sourcepage and the sourcefile. A passage of a web page may have no path."""
        id = self._text(hit, self.id)
        page, file = self._text(hit, self.sourcepage), self._text(hit, self.sourcefile)
        name = file or page or self._text(hit, self.title) or id
        if not self.chunk:
            return escape_citation(page or name), name
        chunk = self._chunk_id(hit) if page else id  # several pages may share a title
        return f"{encode_path(page or name)}#{encode_path(chunk)}", name

    def _chunk_id(self, hit: Mapping[str, Any]) -> str:
        """The number of a passage within its file; its id if it has no number."""
        value = hit.get(self.chunk)
        if self.chunk == METADATA_FIELD:
            try:
                value = from_json(value or "")[CHUNK_FIELD]
            except (ValueError, KeyError, TypeError, IndexError):
                value = None
        number = isinstance(value, str | int) and not isinstance(value, bool) and str(value)
        return number or self._text(hit, self.id)

    def _url(self, hit: Mapping[str, Any]) -> str | None:
        """The passage's URL: None if the index has no such field, empty if it is no web address."""
        if not self.url:
            return None
        url = self._text(hit, self.url)
        return url if url.lower().startswith(("https://", "http://")) else ""

    @staticmethod
    def _text(hit: Mapping[str, Any], name: str) -> str:
        value = hit.get(name)
        return "" if value is None else str(value)


def build_filter(
    fields: IndexFields, user: User, overrides: Overrides, names: Sequence[str] = ()
) -> str | None:
    """Return the OData filter of a search; None if every passage may be found.

    An index with access control always has a filter: at least for public passages. `names` are the
    stored ones of the documents within which a search is; it is in all of them without any.
    """
    parts = [security_filter(fields, user, overrides)]
    if names:
        # Not by search.in(), which splits a text at a delimiter that a name may have.
        parts.append(f"({' or '.join(f'{fields.sourcefile} eq {quote(name)}' for name in names)})")
    if fields.category and overrides.include_category is not None:
        parts.append(f"{fields.category} eq {quote(overrides.include_category)}")
    if fields.category and overrides.exclude_category is not None:
        other = f"{fields.category} ne {quote(overrides.exclude_category)}"
        parts.append(f"({other} or {fields.category} eq null)")
    if overrides.filter is not None:
        parts.append(f"({overrides.filter})")
    return " and ".join(filter(None, parts)) or None


def security_filter(fields: IndexFields, user: User, overrides: Overrides) -> str:
    """Return the condition for what `user` may see; empty if the index has no access control."""
    restricting = [name for name in (fields.oids, fields.groups) if name]
    if not restricting:
        return ""
    # Each clause makes a passage visible: it is public, or a filter matches the user.
    clauses = [f"({' and '.join(f'not {name}/any()' for name in restricting)})"]
    if user.oid and PRINCIPAL_ID.fullmatch(user.oid):
        if fields.oids and overrides.use_oid_security_filter:
            clauses.append(f"{fields.oids}/any(o: o eq {quote(user.oid)})")
        groups = ",".join(group for group in user.groups if PRINCIPAL_ID.fullmatch(group))
        if fields.groups and overrides.use_groups_security_filter and groups:
            clauses.append(f"{fields.groups}/any(g: search.in(g, {quote(groups)}, ','))")
    return f"({' or '.join(clauses)})"


def quote(text: str) -> str:
    """Return a string literal of OData, with its quotes doubled."""
    return "'" + text.replace("'", "''") + "'"


def stored_name(fields: IndexFields, sourcefile: str) -> str:
    """Return the name that an index stores: only the app's own are encoded as in a citation."""
    return sourcefile if fields.is_own_schema else decode_path(sourcefile)


def filter_by_file(fields: IndexFields, user: User, name: str, overrides: Overrides) -> Query:
    """Return the query for the passages of the file with a stored name that `user` may see."""
    conditions = security_filter(fields, user, overrides), f"{fields.sourcefile} eq {quote(name)}"
    return {"search": "*", "filter": " and ".join(filter(None, conditions))}


def file_queries(
    fields: IndexFields, user: User, name: str, overrides: Overrides
) -> Iterator[Query]:
    """Yield queries for the passages of a file; the second is for indexes of other tools.

    Their sourcefile need not be filterable, and a web page may have a title only: so the name is
    searched for as a phrase, which other files may contain, too.
    """
    more = {"select": ",".join(fields.select_fields()), "top": PAGE_SIZE}
    yield filter_by_file(fields, user, name, overrides) | more
    if not fields.is_own_schema:
        phrase = _PHRASE_RESERVED.sub(r"\\\g<0>", name)
        names = dict.fromkeys(filter(None, (fields.sourcefile, fields.title)))
        condition = security_filter(fields, user, overrides)
        yield {
            "search": f'"{phrase}"',
            "searchFields": ",".join(names),
            **({"filter": condition} if condition else {}),
            **more,
        }


def to_passages(
    fields: IndexFields, hits: Sequence[Mapping[str, Any]], name: str
) -> tuple[Source, ...]:
    """Return the hits that are passages of a file, each once, in the order of the file."""
    sources = {source.id: source for source in map(fields.to_source, hits)}
    passages = (source for source in sources.values() if source.sourcefile == name)
    return tuple(replace(source, score=None) for source in sorted(passages, key=_position))


def _position(source: Source) -> tuple[str, str]:
    """The sort key of a passage in its file: its page or chunk, then its id."""
    return _pad_numbers(source.sourcepage), _pad_numbers(source.id)


def _pad_numbers(text: str) -> str:
    """Pad the numbers of a text, so that texts sort by them: `p2` before `p10`."""
    return _NUMBER.sub(lambda match: match[0].zfill(20), text)
