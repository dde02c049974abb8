"""Citations as Markdown links, for chat pages that show no sources: `CITATION_LINKS`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shared.domain.events import Delta, Done, Source
from shared.protocols.exchange import App
from shared.protocols.openai.data_sources import SearchScope
from shared.protocols.openai.routes import ChatCompletionsConfig
from shared.settings import read_settings
from tests.support.calls import ask, call, local_service
from tests.support.fakes import PLUS, STANDARD, FakeModel, FakeRetriever, make_rag

ROUTE = "/v1/chat/completions"
ON = (ChatCompletionsConfig(links_citations=True),)
ANSWER = "Dental [plans/standard.md] care [plans/plus.pdf#page=2][plans/standard.md]."
TEXT = "Dental [doc2] care [doc1][doc2]."
LINKS = "\n\n[doc2]: <https://app.example/content/plans/standard.md>"
LINKS += "\n[doc1]: <https://app.example/content/plans/plus.pdf#page=2>"


def service(
    answer: str = ANSWER, configs: Any = ON, sources: tuple[Source, ...] = (PLUS, STANDARD)
) -> tuple[App, FakeModel]:
    pieces = (answer[:20], answer[20:])
    model = FakeModel((*map(Delta, pieces), Done()))
    rag = make_rag(model, FakeRetriever(sources))
    return local_service(rag, configs=configs, links="https://app.example"), model


def answers(app: App, **more: Any) -> list[str]:
    """The text of a whole answer, and of a stream."""
    body = {"messages": [{"role": "user", "content": "What is in Plus?"}], **more}
    whole = ask(call(ROUTE, body), app)
    stream = ask(call(ROUTE, {**body, "stream": True}), app)
    *lines, _, _ = stream.data.split(b"\n\n")
    chunks = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]

    assert whole.status == stream.status == 200
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    pieces = [delta.get("content") or "" for delta in deltas]
    return [whole.json["choices"][0]["message"]["content"], "".join(pieces)]


def test_cited_sources_are_linked_behind_the_text() -> None:
    app, _ = service()

    assert answers(app) == [TEXT + LINKS] * 2


def test_citations_are_no_links_by_default() -> None:
    app, _ = service(configs=())

    assert answers(app) == [TEXT] * 2
    assert read_settings({}).citation_links == "off"


@pytest.mark.parametrize("answer", ["I don't know.", "[doc1] of [plan.md]", ""])
def test_answer_without_citations_has_no_links(answer: str) -> None:
    app, _ = service(answer)

    assert not any("]: <" in text for text in answers(app))


def test_source_without_an_address_is_not_linked() -> None:
    app, _ = service(sources=(replace(PLUS, url=""), STANDARD))

    assert answers(app) == [TEXT + LINKS.partition("\n[doc1]")[0]] * 2


def test_address_of_an_index_does_not_end_its_link() -> None:
    app, _ = service(sources=(replace(PLUS, url="https://a.example/> [x](y)\n#"),))
    expected = "\n[doc1]: <https://a.example/%3E%20[x](y)%0A#>"

    assert answers(app)[0].endswith(expected)


def read_back(text: str) -> list[str]:
    """An earlier answer with this text, as the model gets it."""
    app, model = service()
    earlier = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": text},
        {"role": "user", "content": "And Plus?"},
    ]
    answers(app, messages=earlier)
    return [each.content for each in model.calls[-1].messages if each.role == "assistant"]


def test_model_gets_an_earlier_answer_without_its_links() -> None:
    assert read_back(TEXT + LINKS) == ["Dental care."]


def test_text_that_only_looks_like_links_is_kept() -> None:
    text = "See [doc1]: <a> b\n\n[doc1]: <x>\nend"

    assert read_back(text) == ["See: <a> b\n\n: <x>\nend"]


def test_long_text_that_begins_like_links_is_read_at_once() -> None:
    text = "\n[doc1]: <a>" * 50_000 + "\n" * 500_000 + "."

    # In seconds, where backtracking would take hours. It is more than fits into a prompt.
    assert read_back(text) == []


@pytest.mark.part("on-your-data")
def test_on_your_data_gets_no_links() -> None:
    app, _ = service(configs=(*ON, SearchScope("https://a.example", "docs")))
    parameters = {"endpoint": "https://a.example", "index_name": "docs"}
    source = {"type": "azure_search", "parameters": parameters}

    assert answers(app, data_sources=[source]) == [TEXT] * 2
