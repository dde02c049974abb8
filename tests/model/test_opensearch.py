"""OpenSearch's conversational search, over a real model."""

from __future__ import annotations

from tests.support.model.app import QUESTION, post
from tests.support.servers import Server


def test_answer_from_the_hits(app: Server) -> None:
    question = {"generative_qa_parameters": {"llm_question": QUESTION}}
    found = post(app, "/documents/_search", {"size": 2, "ext": question}).json()

    assert len(found["hits"]["hits"]) == 2
    assert found["ext"]["retrieval_augmented_generation"]["answer"]
