"""The postprovision hook with a knowledge base, and the app over what it made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.fake_knowledge_base import FakeKnowledgeBase
from tests.support.hook import Cloud, SearchService, make_cloud, project
from tests.support.packaging import needs_git
from tests.support.upstream import RecordedRequest, Step, error_response

__all__ = ["project"]  # fixtures
pytestmark = needs_git

SETTINGS = {
    "AZURE_SEARCH_KNOWLEDGE_BASE": "kb",
    "AZURE_SEARCH_KNOWLEDGE_EFFORT": "minimal",
    "AZURE_SEARCH_VECTORIZER": "true",
}
BASE = "knowledgebases('kb')"


@dataclass
class KnowledgeService(SearchService):
    """A search service with knowledge bases."""

    is_exhausted: bool = False  # whether the allowance for questions is used up
    base: FakeKnowledgeBase = field(default_factory=lambda: FakeKnowledgeBase(definitions={}))

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        if not self.of_knowledge_base(request):
            return super().refusal(request)
        if self.base.plan:
            return self.base.plan.pop(0)
        if self.is_exhausted and request.path.startswith("/knowledgebases('kb')/retrieve"):
            return error_response(402)
        assert self.base.definitions is not None
        for name, index in self.indexes.items():
            self.base.definitions[f"indexes('{name}')"] = index.definition
            self.base.docs = list(index.docs.values())
        return self.base.refusal(request)

    def respond(self, request: RecordedRequest) -> list[Step]:
        is_own = not self.of_knowledge_base(request)
        return super().respond(request) if is_own else self.base.respond(request)

    def of_knowledge_base(self, request: RecordedRequest) -> bool:
        return request.path.startswith("/knowledge")


@pytest.fixture
def cloud(project: Path, tmp_path: Path) -> Iterator[Cloud]:
    with make_cloud(project, tmp_path, KnowledgeService()) as cloud:
        cloud.values |= SETTINGS
        yield cloud


def knowledge_base(cloud: Cloud) -> FakeKnowledgeBase:
    assert isinstance(cloud.search, KnowledgeService)
    return cloud.search.base


def test_base_is_created_over_the_samples_and_answers(cloud: Cloud) -> None:
    first = cloud.hook()
    second = cloud.hook()

    assert (first.returncode, first.stderr) == (0, "")
    assert "The knowledge base kb searches the index docs with the effort minimal." in first.stdout
    assert "It was asked a question and found a passage." in first.stdout
    assert "vectors are not used" not in first.stdout
    assert (second.returncode, second.stderr) == (0, "")
    assert (knowledge_base(cloud).definitions or {})[BASE]["knowledgeSources"] == [{"name": "docs"}]
    assert cloud.local()["Values"].items() >= SETTINGS.items()


def test_base_without_an_index_is_left_to_the_command(cloud: Cloud) -> None:
    done = cloud.hook(AZURE_LOAD_SAMPLES="false")

    assert done.returncode == 0
    assert "after `make index`, `make knowledge-base` creates the knowledge base" in done.stdout
    assert BASE not in (knowledge_base(cloud).definitions or {})


def test_refusal_ends_with_instructions(cloud: Cloud) -> None:
    cloud.hook()
    knowledge_base(cloud).plan.append(error_response(403))
    done = cloud.hook()

    assert done.returncode == 1
    assert "Search Service Contributor" in done.stderr
    assert "continue with `azd up`" in done.stderr


def test_base_that_does_not_answer_yet_stops_nothing(cloud: Cloud) -> None:
    cloud.hook()
    assert isinstance(cloud.search, KnowledgeService)
    cloud.search.is_exhausted = True
    done = cloud.hook()

    assert (done.returncode, done.stderr) == (0, "")
    assert "It was asked a question and did not answer: knowledge base: status 402" in done.stdout
