"""Reads a corpus of thirty files of all types, valid and invalid, under limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from ingest.document import UnreadableDocument
from ingest.sandbox import SandboxLimits, SandboxReader
from ingest.splitting.passages import MAX_TOKENS, Passage
from shared.text import count_tokens
from tests.support.corpus import Corpus, write_corpus
from tests.support.tokenizer import load_tokenizer


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one reader gave for each file, and how long it took for all."""

    corpus: Corpus
    passages: Mapping[str, tuple[Passage, ...]]
    reasons: Mapping[str, str]
    seconds: float


async def read_all(corpus: Corpus) -> Outcome:
    passages: dict[str, tuple[Passage, ...]] = {}
    reasons: dict[str, str] = {}
    names = [known.name for known in corpus.readable] + list(corpus.broken)
    start = time.monotonic()
    # Less memory and time than a run gives: no file of the corpus may need more.
    async with SandboxReader(SandboxLimits(timeout=30, max_memory=800 * 2**20)) as reader:
        for name in names:
            try:
                passages[name] = await reader.read_passages(corpus.folder / name, name)
            except UnreadableDocument as error:
                reasons[name] = str(error)
    return Outcome(corpus, passages, reasons, time.monotonic() - start)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return asyncio.run(read_all(write_corpus(tmp_path_factory.mktemp("corpus"))))


def test_corpus_has_at_least_thirty_files(outcome: Outcome) -> None:
    assert len(outcome.corpus.readable) + len(outcome.corpus.broken) >= 30


def test_readable_files_have_the_expected_passage(outcome: Outcome) -> None:
    for known in outcome.corpus.readable:
        assert known.name in outcome.passages, outcome.reasons.get(known.name)
        passages = outcome.passages[known.name]
        holders = [passage for passage in passages if known.sentence in passage.content]
        assert known.sourcepage in {passage.sourcepage for passage in holders}, known
        assert {passage.category for passage in passages} == {known.category}
        assert any(passage.image for passage in holders) == known.picture


def test_unreadable_files_have_a_reason(outcome: Outcome) -> None:
    assert outcome.reasons == outcome.corpus.broken


def test_no_file_takes_too_long(outcome: Outcome) -> None:
    assert outcome.seconds < 120


def test_passages_are_within_limit_and_token_estimates_safe(
    outcome: Outcome,
) -> None:
    contents = [passage.content for passages in outcome.passages.values() for passage in passages]
    tokenizer = load_tokenizer()

    assert max(map(count_tokens, contents)) <= MAX_TOKENS
    assert [text for text in contents if tokenizer.count(text) > count_tokens(text)] == []


def test_ids_are_unique_in_the_corpus(outcome: Outcome) -> None:
    ids = [passage.id for passages in outcome.passages.values() for passage in passages]

    assert len(set(ids)) == len(ids)


def test_passages_do_not_depend_on_earlier_files(outcome: Outcome) -> None:
    async def alone(name: str) -> tuple[Passage, ...]:
        async with SandboxReader() as reader:
            return await reader.read_passages(outcome.corpus.folder / name, name)

    last = outcome.corpus.readable[-1].name

    assert asyncio.run(alone(last)) == outcome.passages[last]
