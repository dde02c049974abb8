"""Drafts questions about the documents of your index, for you to edit."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

from tqdm import tqdm

from evals.drafts.drafter import Drafter
from evals.drafts.file import Drafts, read_drafts
from evals.drafts.passages import draw_passages
from evals.json_replies import InvalidReply, describe
from evals.questions import Question, read_questions
from evals.records import RUNS
from ingest.concurrency import prefetch
from shared import settings as configuration
from shared.bootstrap.clients import Clients
from shared.bootstrap.local_settings import UsageError, read_environment
from shared.bootstrap.models import DEFAULT_MODEL, make_router
from shared.bootstrap.search import make_retriever
from shared.domain.errors import (
    BadRequest,
    ChatError,
    DeadlineExceeded,
    TooManyRequests,
    Unavailable,
)
from shared.domain.events import Source
from shared.domain.overrides import Overrides
from shared.settings import Settings, SettingsError
from shared.telemetry.access_log import quiet_libraries

OUTPUT = RUNS / "drafts.jsonl"
NO_MODEL = (
    "A language model drafts the questions, and the app has none: set OPENAI_BASE_URL and "
    "OPENAI_CHAT_MODEL, or Azure OpenAI, in local.settings.json (docs/models.md)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("--count", type=int, default=20, help="the number of questions in the file (20)")
    add("--output", type=Path, default=OUTPUT, help="the file (build/evals/drafts.jsonl)")
    add("--overwrite", action="store_true", help="start anew where the file exists")
    add("--compare", type=Path, metavar="FILE", help="mark what resembles its questions")
    add("--seed", type=int, default=1, help="draw other passages (1)")
    add("--at-once", type=int, default=4, metavar="N", help="passages at once (4)")


def main(options: argparse.Namespace) -> int:
    """Draft questions. Returns the exit status: 1 if the model or the index fails.

    Raises EvaluationError, UsageError.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    quiet_libraries()
    try:
        settings = configuration.read_settings(read_environment(os.environ))
        drafts = asyncio.run(run(options, settings))
    except SettingsError as error:
        raise UsageError(str(error)) from None
    except ChatError as error:
        print(describe(error), file=sys.stderr)
        return 1
    _report(drafts)
    return 0 if drafts.questions and not drafts.has_failed else 1


async def run(options: argparse.Namespace, settings: Settings) -> Drafts:
    """Draft what the file lacks. Raises UsageError, SettingsError, FileError, ChatErrors."""
    if options.count < 1 or options.at_once < 1:
        raise UsageError("--count and --at-once must be 1 or more.")
    others = read_questions(options.compare) if options.compare else ()
    async with _open_drafter(settings) as drafter:
        if options.overwrite:
            options.output.unlink(missing_ok=True)
        drafts = Drafts(options.output, options.count, read_drafts(options.output), others)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        await _draft_missing(drafter, drafts, options)
    return drafts


@asynccontextmanager
async def _open_drafter(settings: Settings) -> AsyncGenerator[Drafter]:
    """Yield a drafter with the model and the index of the app, when these can be used.

    Raises UsageError without a language model, SettingsError, ChatErrors.
    """
    clients = Clients(settings, batch=True)
    try:
        model = make_router(clients).default
        if model.name == DEFAULT_MODEL:
            raise UsageError(NO_MODEL)
        retriever = make_retriever(clients)
        await retriever.ready()
        yield Drafter(model, retriever, Overrides(top=settings.default_top))
    finally:
        await clients.close()


async def _draft_missing(drafter: Drafter, drafts: Drafts, options: argparse.Namespace) -> None:
    """Draft until the file has enough questions or no passage is left. Raises ChatErrors."""
    initial = len(drafts.questions)
    bar = tqdm(total=options.count, initial=initial, unit="question", disable=None, leave=False)
    async with aclosing(_outcomes(drafter, drafts, options)) as outcomes:
        with bar:
            async for passage, outcome in outcomes:
                drafts.add(passage, outcome)
                bar.update(len(drafts.questions) - bar.n)
                if drafts.has_failed:
                    return


async def _outcomes(
    drafter: Drafter, drafts: Drafts, options: argparse.Namespace
) -> AsyncGenerator[tuple[Source, Question | str], None]:
    """Yield passages with their outcomes, while the file needs questions. Raises ChatErrors."""
    texts = {question.passage for question in drafts.questions}
    draft = partial(_try_to_draft, drafter)
    async with aclosing(draw_passages(drafter.retriever, options.seed)) as passages:
        while batch := await _take(passages, drafts.open_count, texts):
            async with aclosing(prefetch(map(draft, batch), options.at_once)) as outcomes:
                async for passage, outcome in outcomes:
                    yield passage, outcome


async def _take(
    passages: AsyncGenerator[Source, None], count: int, texts: set[str | None]
) -> list[Source]:
    """Return the next passages whose text is not among `texts`, and add it."""
    batch: list[Source] = []
    while len(batch) < count and (passage := await anext(passages, None)):
        if passage.content not in texts:
            texts.add(passage.content)
            batch.append(passage)
    return batch


async def _try_to_draft(drafter: Drafter, passage: Source) -> tuple[Source, Question | str]:
    """Return a passage with its question, or why there is none.

    Raises the ChatErrors that every other passage would meet.
    """
    try:
        question = await drafter.draft(passage)
    except InvalidReply as error:
        return passage, str(error)
    except (BadRequest, TooManyRequests, Unavailable, DeadlineExceeded) as error:
        return passage, describe(error)
    return passage, question or "the model says that it has nothing to ask about"


def _report(drafts: Drafts) -> None:
    """Print what is in the file and what a person has to do; failures to stderr."""
    for failure in drafts.failures:
        printable = "".join(char if char.isprintable() else "?" for char in failure)
        print(f"No question: {printable}", file=sys.stderr)
    if drafts.has_failed:
        print("Stopped: too many in a row. Run the command again to continue.", file=sys.stderr)
    for line in drafts.describe():
        print(line)
