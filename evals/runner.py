"""Asks an app the questions of a run, many at once, and goes on where a killed run stopped."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from tqdm import tqdm

from evals.files import append
from evals.questions import Question
from evals.runs import ANSWERS, RunError, RunHeader, read_answers, read_header, write_header
from evals.target import Target

MAX_CHECKED_FILES = 20  # before a run: enough to tell that the questions are of other documents
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def start_run(name: str | None, target: str) -> RunHeader:
    """Create a run, or find the one to continue. Raises RunError if that asked something else."""
    now = datetime.now(UTC)
    name = name or now.strftime("%Y%m%d-%H%M%S")
    if not NAME.fullmatch(name):
        raise RunError(f"{name!r} cannot name a run: use letters, digits, '.', '_' and '-'.")
    header = read_header(name)
    if header is None:
        header = RunHeader(name=name, target=target, started=now.isoformat(timespec="seconds"))
        write_header(header)
    elif header.target != target:
        raise RunError(
            f"The run {name} asked {header.target}, and this is {target}: name another run."
        )
    return header


async def ask_all(
    target: Target, questions: Sequence[Question], header: RunHeader, at_once: int
) -> None:
    """Ask the questions that have no answer yet; each record is written as it arrives."""
    answers = header.folder / ANSWERS
    done = {record.question.id for record in read_answers(header.name) if record.reply}
    pending = [question for question in questions if question.id not in done]
    if len(pending) < len(questions):
        print(f"{len(questions) - len(pending)} of {len(questions)} questions have their answer.")
    limit = asyncio.Semaphore(at_once)
    with tqdm(total=len(pending), unit="question", disable=not pending) as progress:

        async def ask(question: Question) -> None:
            async with limit:
                record = await target.ask(question)
            append(answers, record)
            progress.update()

        async with asyncio.TaskGroup() as group:
            for question in pending:
                group.create_task(ask(question))


async def find_absent_files(
    target: Target, questions: Sequence[Question]
) -> tuple[list[str], bool]:
    """Return which of the first files of expected pages the app does not serve; whether it is all.

    Without expected pages it is none.
    """
    pages = {page for question in questions for pages in question.citations for page in pages}
    files = sorted({page.partition("#")[0] for page in pages})[:MAX_CHECKED_FILES]
    absent = [file for file in files if not await target.has_file(file)]
    return absent, bool(absent) and len(absent) == len(files)
