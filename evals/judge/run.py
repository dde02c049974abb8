"""Measures a judge by the labels, then judges the answers of a run with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from evals.files import append
from evals.judge.judgements import judge_answer, judgement_key, read_by_key
from evals.judge.labels import LABELS, MIN_AGREEMENT, measure_agreement, read_labels
from evals.judge.model import Judge, JudgeError, open_judge
from evals.questions import Question
from evals.records import Judgement, Record, Reply

Answer = tuple[Question, Reply]

MAX_CONCURRENT_ANSWERS = 8
LABELS_FILE = (
    "judge-labels.jsonl"  # beside the runs, so that a judge is measured once for all of them
)
DISAGREEMENT = (
    "The judge {name} is refused: it agrees too little with {labels} in {metrics}. The lower bound "
    "must be {least} or more. Name another model."
)


async def judge_run(
    name: str,
    environment: Mapping[str, str],
    records: Sequence[Record],
    path: Path,
    show: Callable[[str], None] = print,
) -> None:
    """Write to `path` the judgements of answers that this judge has not judged yet.

    `name` is that of a model at the endpoint of the app's settings, which the `environment` has.
    `show` gets the lines on how far the judge agrees with the labels, and on what failed. Raises
    JudgeError.
    """
    answers = [(each.question, each.reply) for each in records if each.reply]
    async with open_judge(environment, name) as judge:
        await _check_judge(judge, path.parent.parent / LABELS_FILE, show)
        judgements = await _judge(judge, answers, path, "answers")
    latest = {each.question: each.key for each in read_by_key(path).values()}
    for each in judgements:
        if latest[each.question] != each.key:  # another judge has judged in between
            append(path, each)
    for line in _describe_failures(judgements):
        show(line)


async def _check_judge(judge: Judge, path: Path, show: Callable[[str], None]) -> None:
    """Judge the labels. Raises JudgeError if the judge agrees with them too little."""
    labels = read_labels(LABELS)
    answers = [(label.question, label.reply) for label in labels]
    judgements = await _judge(judge, answers, path, "labels")
    agreement = measure_agreement(labels, judgements)
    figures = ", ".join(
        f"{metric} {each.mean:.2f} ({each.low:.2f} to {each.high:.2f})"
        for metric, each in agreement.items()
    )
    show(f"Judge {judge.model.name}, agreement with {len(labels)} labelled answers: {figures}")
    for line in _describe_failures(judgements):
        show(line)
    if metrics := [name for name, each in agreement.items() if each.low < MIN_AGREEMENT]:
        raise JudgeError(
            DISAGREEMENT.format(
                name=judge.model.name,
                labels=LABELS.name,
                metrics=", ".join(metrics),
                least=MIN_AGREEMENT,
            )
        )


async def _judge(judge: Judge, answers: Sequence[Answer], path: Path, unit: str) -> list[Judgement]:
    """Return the judgements of answers; those that are missing or failed are made anew."""
    present = {key: each for key, each in read_by_key(path).items() if not each.failures}
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_ANSWERS)

    async def find_or_make(answer: Answer) -> Judgement:
        async with semaphore:
            judgement = present.get(judgement_key(judge, *answer))
            if judgement is None:
                judgement = await judge_answer(judge, *answer)
                append(path, judgement)
            bar.update()
            return judgement

    with tqdm(total=len(answers), desc=f"judge {unit}", disable=None, leave=False) as bar:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(find_or_make(answer)) for answer in answers]
    return [task.result() for task in tasks]


def _describe_failures(judgements: Sequence[Judgement]) -> Iterator[str]:
    failures = [(metric, text) for each in judgements for metric, text in each.failures.items()]
    for (metric, text), count in Counter(failures).items():
        yield f"No {metric} for {count} of {len(judgements)} answers: {text}"
