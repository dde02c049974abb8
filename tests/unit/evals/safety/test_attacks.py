"""Tests of reading the attacks, and of the file of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.files import FileError
from evals.records import ROOT
from evals.safety.attacks import Attack, read_attacks

ROW: dict[str, Any] = {
    "id": "a",
    "kind": "markup",
    "request": {"question": "b?"},
    "expect": {"absent": ["c"]},
}


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "attacks.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "line 2: the object: Invalid JSON"),
        ({**ROW, "kind": "other"}, "line 2: kind: "),
        ({**ROW, "id": "A b"}, "line 2: id: "),
        ({**ROW, "expects": {}}, "line 2: expects: Extra inputs"),
        ({**ROW, "request": {"question": ""}}, "line 2: request.question: "),
        ({**ROW, "request": {"question": "b?", "text": "c"}}, "more than one of question, body"),
        ({**ROW, "request": {"overrides": {"top": 1}}}, "overrides need a question"),
        ({**ROW, "expect": {"status": 503}}, "line 2: expect.status: "),
        ({**ROW, "expect": {}, "control": {}}, "a control needs texts in expect.absent"),
        ({**ROW, "id": "first"}, "line 2: the id first is there twice"),
    ],
)
def test_error_names_the_line_and_the_key(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(FileError) as caught:
        read_attacks(write(tmp_path, {**ROW, "id": "first"}, row))

    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [(None, "cannot be read"), ("", "has no attack")])
def test_file_without_attacks_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "attacks.jsonl"
    if text is not None:
        path.write_text(text)

    with pytest.raises(FileError, match=message):
        read_attacks(path)


@pytest.mark.parametrize("attack", read_attacks(), ids=lambda attack: attack.id)
def test_attack_cannot_pass_without_reaching_the_app(attack: Attack) -> None:
    expect = attack.expect
    shows_success = expect.present or expect.retrieved or expect.headers or attack.control

    assert expect.status >= 400 or shows_success or (attack.needs_model and expect.needs_answer)


def test_example_of_the_docs_is_an_attack() -> None:
    page = (ROOT / "docs" / "safety.md").read_text("utf-8")
    example = page.partition("```json\n")[2].partition("```")[0]

    assert Attack.model_validate_json(example).control
