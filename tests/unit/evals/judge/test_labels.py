"""Tests of the labels that measure a judge, and of the sentences that they are about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.files import FileError
from evals.judge.labels import LABELS, MIN_AGREEMENT, measure_agreement, read_labels
from evals.judge.sentences import sentences
from evals.records import Judgement, Passage, Reply, SentenceJudgement

ALL_LABELS = read_labels(LABELS)


def reply(content: str, *names: str) -> Reply:
    passages = tuple(Passage(name=name, text="x") for name in names)
    return Reply(content=content, passages=passages, seconds_to_first_token=0, seconds=0)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("It is $30 [a.md]. It is waived [a.md][b.pdf#page=2].", ["It is $30.", "It is waived."]),
        ("It is $30. [a.md] It is waived.", ["It is $30.", "It is waived."]),
        ("See:\n\n- One [a.md]\n- Two\n1. Three", ["See:", "One", "Two", "Three"]),
        ("## Costs\n\n> **$30** a visit.", ["Costs", "**$30** a visit."]),
        ("| a | b |\n|---|---|\n| 1. | 2 [a.md] |", ["| a | b |", "| 1. | 2 |"]),
        ("Ask Dr. Smith.\r\nHe knows.", ["Ask Dr. Smith.", "He knows."]),
        ("他很忙。他不来。", ["他很忙。", "他不来。"]),
        (
            "See [the list](https://example.com/a.md).",
            ["See [the list](https://example.com/a.md)."],
        ),
        ("...\n---\n", []),
        ("", []),
    ],
)
def test_answer_is_split_into_its_sentences(content: str, expected: list[str]) -> None:
    assert list(sentences(reply(content, "a.md", "b.pdf#page=2"))) == expected


def test_there_are_enough_labelled_answers_of_every_kind() -> None:
    verdicts = [str(verdict) for label in ALL_LABELS for verdict in label.verdicts]

    assert len({(label.question.id, label.answer) for label in ALL_LABELS}) >= 40
    assert min(map(verdicts.count, ("supported", "not_supported", "no_claim"))) >= 10


def constant(verdict: str, score: float) -> list[Judgement]:
    """The judgements of a judge that always says the same."""
    return [
        Judgement(
            key="",
            judge="",
            question=label.question.id,
            scores={"relevance": score, "completeness": score},
            sentences=tuple(
                SentenceJudgement.model_validate({"sentence": text, "verdict": verdict})
                for text in sentences(label.reply)
            ),
        )
        for label in ALL_LABELS
    ]


@pytest.mark.parametrize("verdict", ["supported", "not_supported", "no_claim"])
@pytest.mark.parametrize("score", [0, 0.5, 1])
def test_judge_that_always_says_the_same_agrees_too_little(verdict: str, score: float) -> None:
    agreement = measure_agreement(ALL_LABELS, constant(verdict, score))

    assert set(agreement) == {"groundedness", "relevance", "completeness"}
    assert all(each.mean < MIN_AGREEMENT for each in agreement.values())


def test_rating_of_4_passes_and_of_3_does_not() -> None:
    label = next(label for label in ALL_LABELS if label.relevant and label.complete)
    at = ALL_LABELS.index(label)

    passed, failed = (constant("supported", score)[at] for score in (0.75, 0.5))

    assert measure_agreement([label], [passed])["relevance"].mean == 1
    assert measure_agreement([label], [failed])["relevance"].mean == 0


LINE = {
    "case": "x",
    "question": {"question": "a?", "reference": "b"},
    "passages": [{"name": "a.md", "text": "b"}],
    "answer": "Boats. Cars.",
    "verdicts": ["supported", "no_claim"],
    "relevant": True,
    "complete": True,
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"verdicts": ["supported"]}, "a verdict for each of 2 sentences"),
        ({"verdicts": ["supported", "perhaps"]}, r"verdicts\.1"),
        ({"complete": None}, "complete and the question's reference"),
        ({"relevance": True}, "relevance"),
    ],
)
def test_wrong_label_is_named_by_its_line(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(f"{json.dumps(LINE)}\n{json.dumps(LINE | change)}\n")

    with pytest.raises(FileError, match=f"line 2: .*{problem}"):
        read_labels(path)
