"""`python -m evals compare`: the same questions, other settings."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.eval_command import run_part, write_questions

QUESTIONS = [
    {
        "question": f"What is the deductible of {plan}?",
        "facts": ["deductible"],
        "citations": [f"plans/northwind_{name}.pdf"],
    }
    for plan, name in (("Northwind Standard", "standard"), ("Northwind Health Plus", "health_plus"))
]


def test_variants_are_columns_of_one_table(tmp_path: Path) -> None:
    path = write_questions(tmp_path, QUESTIONS)
    variants = ("three INDEX_FILE=samples", "one INDEX_FILE=samples DEFAULT_TOP=1")
    status, output = run_part("compare", *variants, "--questions", path)

    assert status == 0, output
    table = output.rpartition("\n\n")[2]
    head, *rows = table.strip().split("\n")
    assert head.split() == ["three", "one"]
    assert any(re.match(r"Prompt tokens +\d+\.\d{3} +\d+\.\d{3}", row) for row in rows)
    assert rows[-1] == "* differs from three by more than noise"


def test_variant_without_a_name_is_refused() -> None:
    status, output = run_part("compare", "DEFAULT_TOP=1")

    assert status == 2
    assert "does not begin with a name for its run" in output
