"""Draws passages from the index of the app, spread over its files."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from shared.domain.events import Source
from shared.domain.overrides import UNSET, Overrides
from shared.domain.request import User
from shared.retrieval.base import Retriever
from shared.text import count_tokens

EVERYBODY = User()  # questions are for a file that a team shares: of public passages alone
MIN_TOKENS = 25  # a shorter passage is a heading or a caption
PAGE_SIZE = 1000
# Where the index cannot list its files, as Azure AI Search.
SEARCHES = 30
ALL = Overrides(top=50, retrieval_mode="text")
QUERY_WORDS = 3

ReadFile = Callable[[str], Awaitable[Sequence[Source]]]


async def draw_passages(retriever: Retriever, seed: int) -> AsyncGenerator[Source, None]:
    """Yield each public passage of the index: one of each file, then another one of each.

    The order is random, and the same for the same seed and index. Raises ChatErrors.
    """
    files, read_file = await _list_files(retriever, seed)
    random.Random(seed).shuffle(files)
    turn = 0
    while files:
        remaining = []
        for name in files:
            passages = [each for each in await read_file(name) if _is_long_enough(each)]
            random.Random(f"{seed} {name}").shuffle(passages)
            if turn < len(passages):
                yield passages[turn]
            if turn + 1 < len(passages):
                remaining.append(name)
        files, turn = remaining, turn + 1


def _is_long_enough(passage: Source) -> bool:
    return count_tokens(passage.content) >= MIN_TOKENS


async def _list_files(retriever: Retriever, seed: int) -> tuple[list[str], ReadFile]:
    """Return the names of the files, and what reads one. Raises ChatErrors."""
    files: list[str] = []
    while page := await retriever.list_files(
        EVERYBODY, UNSET, files[-1] if files else "", PAGE_SIZE
    ):
        files += page
    if files:
        return files, lambda name: retriever.list_passages(EVERYBODY, name, UNSET)
    passages = await _search_for_passages(retriever, seed)

    async def read_file(name: str) -> Sequence[Source]:
        return passages[name]

    return sorted(passages), read_file


async def _search_for_passages(retriever: Retriever, seed: int) -> dict[str, list[Source]]:
    """Return what searches for words of the index find, by file. Raises ChatErrors."""
    words = random.Random(seed)
    passages: dict[str, Source] = {}
    query = "*"
    for _ in range(SEARCHES):
        result = await retriever.search(EVERYBODY, query, ALL)
        passages |= {source.id: source for source in result.sources}
        if not passages:
            break
        content = words.choice(list(passages.values())).content.split()
        query = " ".join(words.sample(content, min(QUERY_WORDS, len(content))))
    files: dict[str, list[Source]] = defaultdict(list)
    for passage in passages.values():
        files[passage.sourcefile].append(passage)
    return files
