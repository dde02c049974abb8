"""`python -m evals run --judge`: the scores are in the summary, or the judge is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.eval_command import fake_app, results, run, write_questions
from tests.support.scripted_judge import JudgeServer, rating
from tests.support.upstream import run_upstream

KEY = "sk-secret-of-the-judge"
QUESTION = {"question": "one?", "reference": "b"}


def run_judged(folder: Path, server: JudgeServer, name: str) -> tuple[int, str]:
    options = ("--questions", write_questions(folder, [QUESTION]), "--run", name)
    variables = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
    with fake_app() as (url, _):
        return run(*options, "--target", url, "--judge", "judge-1", **variables)


def test_judged_run_has_the_scores_of_the_judge(tmp_path: Path) -> None:
    with run_upstream(JudgeServer()) as server:
        status, output = run_judged(tmp_path, server, "judged")

    summary = json.loads((results("judged") / "summary.json").read_text("utf-8"))
    assert status == 0, output
    assert "Judge judge-1, agreement with " in output
    assert "labelled answers: groundedness 1.00 (1.00 to 1.00)" in output
    for metric in ("Groundedness", "Relevance", "Completeness"):
        assert re.search(rf"{metric} +1\.000 .* 1\n", output)
        assert summary["metrics"][metric.lower()]["mean"] == 1
    assert KEY not in output


def test_refused_judge_ends_the_run_and_keeps_the_answers(tmp_path: Path) -> None:
    with run_upstream(JudgeServer(judge=lambda _: rating(5))) as server:
        status, output = run_judged(tmp_path, server, "refused")

    assert status == 1
    assert "The judge judge-1 is refused: it agrees too little with labels.jsonl" in output
    assert "Traceback" not in output
    assert (results("refused") / "answers.jsonl").exists()
    assert not (results("refused") / "judgements.jsonl").exists()
