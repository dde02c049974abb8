"""The Retriever protocol: what the app needs of a search engine, and what a search reports."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from string import whitespace
from typing import Any, Protocol, runtime_checkable

from shared.domain.errors import (
    BadRequest,
    DeadlineExceeded,
    TooManyRequests,
    Unavailable,
    Unsupported,
)
from shared.domain.events import ExcludedSource, Source, decode_path
from shared.domain.messages import Message
from shared.domain.overrides import MAX_SEARCH_TEXT, Overrides
from shared.domain.request import User

Embed = Callable[[Sequence[str]], Awaitable[list[list[float]]]]
"""Returns one vector per text, in their order. Raises ChatErrors."""

MAX_IMAGES = 8
"""Images per search, those of its best passages: each costs the model tokens."""

MAX_FILES = 500
"""Files whose top folders are listed as categories."""

_WHITE_SPACE = whitespace.encode()

ELLIPSIS = " \u2026 "
MAX_QUERY = MAX_SEARCH_TEXT + len(ELLIPSIS)
"""Characters of the longest text that `shorten_query` returns."""

DEFAULT_VECTOR_FIELD = "embedding"  # clients name it in every request, also in a text search

EMPTY_INDEX = "The index has no passages: fill it, for example by `make index DOCS=folder`."
NO_VECTORS = "the index has no vectors"
EMBEDDING_FAILED = "the embedding model is busy or not available at the moment"
NO_PASSAGES = "This deployment's index cannot return the text of a document: search it instead."

_WITHOUT_RANKER = {
    "semantic_ranker": "no ranker is available; the passages are in the order of the search",
    "semantic_captions": "captions need a ranker; the whole passages were used",
    "minimum_reranker_score": "no ranker is available, so there is no such score",
}

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class FilePart:
    """The passages of a file to read. A retriever may return more."""

    sourcepage: str | None = None  # how they are cited; None for all of them
    characters: int | None = None  # reading may end when their texts have so many together

    def limit(self, passages: Iterable[Source]) -> Iterator[Source]:
        """Yield passages until their texts are long enough."""
        length = 0
        for passage in passages:
            yield passage
            length += len(passage.content)
            if self.characters is not None and length >= self.characters:
                return


WHOLE_FILE = FilePart()


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """What an index holds, as far as it is known without a request: for the log and `/health`."""

    name: str  # of the index, or of the folder of its documents: never a path
    has_vectors: bool = False  # whether a search uses them
    documents: int | None = None
    passages: int | None = None
    updated: float | None = None  # when it was made or last changed, in seconds since 1970
    has_ranker: bool = False  # a semantic one
    has_images: bool = False  # whether passages can have images
    is_samples: bool = False  # whether these are the sample documents

    def describe(self) -> str:
        """Format a sentence such as `manuals: 1 document, 12 passages, searched by words`."""
        counts = (("document", self.documents), ("passage", self.passages))
        parts = [f"{n:,} {noun}{'' if n == 1 else 's'}" for noun, n in counts if n is not None]
        parts.append(f"searched by words{' and vectors' if self.has_vectors else ''}")
        if self.updated is not None:
            parts.append(f"made {self._time():%Y-%m-%d %H:%M} UTC")
        return f"{self.name}: {', '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        """Return the values that are known."""
        values = {
            "name": self.name,
            "documents": self.documents,
            "passages": self.passages,
            "search": "words and vectors" if self.has_vectors else "words",
            "made": None if self.updated is None else f"{self._time():%Y-%m-%dT%H:%M:%SZ}",
        }
        return {key: value for key, value in values.items() if value is not None}

    def _time(self) -> datetime:
        return datetime.fromtimestamp(self.updated or 0, UTC)


class Retriever(Protocol):
    """Searches an index for passages.

    A class that inherits from it has to define `search` only: the other members have defaults.
    A class that does not inherit from it defines all of them.
    """

    name: str = "custom"

    async def ready(self) -> None:
        """Check, free of charge, that a search would work. Raises the ChatError that it meets.

        The default is that it would.
        """
        return None

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Return the best `overrides.top` passages for `query` that `user` may see.

        A passage without oids and groups is public. Any other is visible when an enabled filter
        (`use_oid_security_filter`, `use_groups_security_filter`) matches the user. `query` is any
        text of at most MAX_QUERY characters. `overrides.filter` is applied, or raises BadRequest:
        it is never ignored. Raises a ChatError: TooManyRequests, Unavailable, Misconfigured.
        """
        ...

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file, by the rule of `search`.

        It decides who may open the file. False, too, if the index has no such file. Raises
        ChatErrors as `search` does. The default is False: no file is opened.
        """
        return False

    async def list_passages(
        self, user: User, sourcefile: str, overrides: Overrides, part: FilePart = WHOLE_FILE
    ) -> tuple[Source, ...]:
        """Return the passages of a part of a file that `user` may see, in the order of the file.

        The rule is that of `search`, but categories and `overrides.filter` have no effect. The
        passages have no image and no score. Empty if the index has no such file, or if the user may
        see none of it. `sourcefile` is encoded as in a citation. Raises ChatErrors as `search`
        does. The default raises Unsupported.
        """
        raise Unsupported(NO_PASSAGES)

    async def list_files(
        self, user: User, overrides: Overrides, after: str, limit: int
    ) -> tuple[str, ...]:
        """Return the sourcefiles of which `user` may see a passage, by the rule of `search`.

        They are sorted by code point: at most `limit` of those after `after`, which is empty for
        the first page. Raises ChatErrors as `search` does. The default is empty: not available.
        """
        return ()

    async def list_categories(
        self, user: User, overrides: Overrides, limit: int
    ) -> tuple[str, ...]:
        """Return at most `limit` categories of passages that `user` may see. Raises ChatErrors.

        The default is `list_top_folders`.
        """
        return await list_top_folders(self, user, overrides, limit)

    def statistics(self) -> IndexStatistics | None:
        """What the index holds, without a request. Raises ChatErrors.

        The default is None: unknown.
        """
        return None


@runtime_checkable
class ConversationRetriever(Protocol):
    """A Retriever with this method searches by conversations: the app rewrites no question."""

    async def search_conversation(
        self, user: User, messages: Sequence[Message], overrides: Overrides
    ) -> SearchResult:
        """Return the best passages for the last message, by the rules of `Retriever.search`.

        `messages` are those of user and assistant, with text and nothing else. Raises ChatErrors.
        """
        ...


@runtime_checkable
class DocumentRetriever(Retriever, Protocol):
    """A Retriever with this method searches within documents."""

    async def search_documents(
        self, user: User, query: str, names: Sequence[str], overrides: Overrides
    ) -> SearchResult:
        """Return the best `overrides.top` passages of documents by their sourcefiles.

        Those that the user may not see have none. If no passage has to do with `query`, the first
        ones are returned. Raises ChatErrors.
        """
        ...


@runtime_checkable
class MentionRetriever(Retriever, Protocol):
    """A Retriever with this method finds documents of a user by their names in a question."""

    async def find_mentioned(
        self, user: User, question: str, overrides: Overrides
    ) -> tuple[str, ...]:
        """Return the sourcefiles of the user's documents whose file names a question contains.

        They are in the order of the question. Documents outside of the categories of `overrides`
        are left out. Raises ChatErrors.
        """
        ...


async def list_top_folders(
    retriever: Retriever, user: User, overrides: Overrides, limit: int
) -> tuple[str, ...]:
    """Return the top folders of the first files that `user` may see, sorted. Raises ChatErrors.

    They are the categories of documents that name no other.
    """
    files = await retriever.list_files(user, overrides, "", MAX_FILES)
    folders = (decode_path(name).partition("/") for name in files)
    return tuple(sorted({folder for folder, slash, _ in folders if slash}))[:limit]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages in rank order, and how they were searched for."""

    sources: tuple[Source, ...]
    props: Mapping[str, Any]  # the properties of the thought about the search
    # A sentence for each option of the request that is not available: what was used instead.
    notes: tuple[str, ...] = ()
    excluded: tuple[ExcludedSource, ...] = ()  # whose scores are below the request's minimum
    # How much the best passages have to do with the question, if the search tells: 1 is what one in
    # ten questions about something else reach.
    relevance: float | None = None
    # That language models of the search used, by the kind, such as `reasoning`.
    tokens: Mapping[str, int] = field(default_factory=dict)


def missing_members(retriever: object) -> list[str]:
    """Return the names of the members of Retriever that an object lacks."""
    members = (name for name in vars(Retriever) if not name.startswith("_"))
    missing = [name for name in members if not hasattr(retriever, name)]
    return ["search"] if getattr(type(retriever), "search", None) is Retriever.search else missing


def shorten_query(text: str) -> str:
    """Return the search text: of a longer one the first and last 1,000 characters.

    Users paste documents into their questions; the question itself stands before or after them.
    """
    half = MAX_SEARCH_TEXT // 2
    return text if len(text) <= MAX_SEARCH_TEXT else f"{text[:half]}{ELLIPSIS}{text[-half:]}"


def distinct(sources: Iterable[Source]) -> Iterator[Source]:
    """Yield the sources without those whose text, white space aside, an earlier one has."""
    seen: set[bytes] = set()
    for source in sources:
        # Three to six times as fast as `str.split`.
        text = source.content.encode("utf-8", "surrogatepass").translate(None, _WHITE_SPACE)
        if text not in seen:
            seen.add(text)
            yield source


def split_by_score(
    sources: Sequence[Source], overrides: Overrides, ranked: bool
) -> tuple[tuple[Source, ...], tuple[ExcludedSource, ...]]:
    """Return the sources with at least the minimum scores, and the others."""
    minimum = overrides.minimum_search_score
    reranker_minimum = overrides.minimum_reranker_score if ranked else None
    if minimum is None and reranker_minimum is None:
        return tuple(sources), ()
    included: list[Source] = []
    excluded: list[ExcludedSource] = []
    for source in sources:
        if _is_below(source.score, minimum):
            excluded.append(ExcludedSource(source, "score"))
        elif _is_below(source.reranker_score, reranker_minimum):
            excluded.append(ExcludedSource(source, "rerank"))
        else:
            included.append(source)
    return tuple(included), tuple(excluded)


def _is_below(score: float | None, minimum: float | None) -> bool:
    return score is not None and minimum is not None and score < minimum


async def embed_query(embed: Embed, query: str, mode: str) -> Sequence[float] | None:
    """Return the vector of a query; None if a hybrid search has to go on by words.

    It has while the model is over its rate limit, cannot be reached or gives no answer in time; the
    log has the cause. For a search by vectors alone this is raised. Raises other ChatErrors for any
    search, such as Misconfigured: an operator must act.
    """
    try:
        (vector,) = await embed([query])
    except (TooManyRequests, Unavailable, DeadlineExceeded) as error:
        if mode != "hybrid":
            raise
        kind, cause = type(error).__name__, error.cause or error.message
        log.warning("search: by words alone, the embedding model failed: %s: %s", kind, cause)
        return None
    return vector


def check_lengths(query: str, overrides: Overrides) -> None:
    """Raise BadRequest for a text of a search that is too long for any retriever."""
    limits = (
        ("query", query, MAX_QUERY),
        ("include_category", overrides.include_category, MAX_SEARCH_TEXT),
        ("exclude_category", overrides.exclude_category, MAX_SEARCH_TEXT),
    )
    for name, text, limit in limits:
        if text is not None and len(text) > limit:
            raise BadRequest(f"must have {limit} characters at most", field=name)


def can_be_indexed(sourcefile: str) -> bool:
    """Whether an index can have a file of this name: no retriever is called for a longer one."""
    return len(sourcefile) <= MAX_SEARCH_TEXT


@dataclass(frozen=True, slots=True)
class SearchReport:
    """How a search was done."""

    mode: str = "text"
    reranked: bool = False  # whether a ranker reordered the hits
    vector_field: str = DEFAULT_VECTOR_FIELD
    fallback_reason: str = NO_VECTORS  # why the mode differs from the requested one
    has_images: bool = False  # whether the images of passages are available
    has_categories: bool = True

    def props(self, overrides: Overrides) -> dict[str, Any]:
        """The properties of the thought about the search."""
        names = ["minimum_search_score"]
        if self.has_categories:
            names = ["include_category", "exclude_category", *names]
        requested = {
            name: getattr(overrides, name) for name in names if overrides.is_requested(name)
        }
        return {
            "has_vector": self.mode != "text",
            "use_semantic_captions": self.reranked and bool(overrides.semantic_captions),
            "retrieval_mode": self.mode,
            "top": overrides.top,
            **({"semantic_ranker": True} if self.reranked else {}),
            **requested,
        }

    def notes(self, overrides: Overrides) -> tuple[str, ...]:
        """Return one sentence for each requested option that was not used."""
        return (*self._vector_notes(overrides), *self._other_notes(overrides))

    def _vector_notes(self, overrides: Overrides) -> Iterator[str]:
        requested = overrides.retrieval_mode
        failed = self.fallback_reason == EMBEDDING_FAILED
        if failed and requested is None:
            requested = "hybrid"
        if requested not in (None, self.mode):
            yield f"retrieval_mode {requested} was left out: {self.fallback_reason}; text was used."
        no_vectors = self.mode == "text" and requested != "text" and not failed
        fields = overrides.vector_fields or ()
        if unknown := [name for name in fields if no_vectors or name != self.vector_field]:
            yield f"vector_fields was left out: this index has no field {', '.join(unknown)}."

    def _other_notes(self, overrides: Overrides) -> Iterator[str]:
        for name, reason in _WITHOUT_RANKER.items():
            if overrides.is_requested(name) and not self.reranked:
                yield f"{name} was left out: {reason}."
        for name in ("include_category", "exclude_category"):
            if overrides.is_requested(name) and not self.has_categories:
                yield f"{name} was left out: this index has no categories."
        if overrides.is_requested("use_gpt4v") and not self.has_images:
            yield "use_gpt4v was left out: no images of the documents are available."
        uses_images = self.has_images and overrides.is_requested("use_gpt4v")
        if overrides.gpt4v_input not in (None, "text") and not uses_images:
            yield f"gpt4v_input {overrides.gpt4v_input} was left out: only text was used."
