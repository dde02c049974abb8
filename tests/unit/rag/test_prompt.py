"""What fits into a model's budget, and what is left out first."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from shared.domain.errors import TooLong
from shared.domain.events import Answer, collect
from shared.domain.messages import Message
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest
from shared.rag.flow import answer
from shared.rag.prompt import MESSAGE_TOKENS, build_prompt, build_rewrite_prompt, split_turns
from tests.support.fakes import PLUS, PROMPTS, STANDARD, FakeModel, FakeRetriever, make_rag

QUESTION = Message("user", "one two three")
TURN = (Message("user", "u1 u2"), Message("assistant", "a1 a2"))
# The fake counts words: "Answer." and "one two three Sources:", each with its frame.
BARE = 1 + MESSAGE_TOKENS + 4 + MESSAGE_TOKENS
TURN_COST = 2 * (2 + MESSAGE_TOKENS)


def prompt_texts(budget: int, *history: Message) -> list[str]:
    request = ChatRequest((*history, QUESTION))
    result = build_prompt(request, PROMPTS, FakeModel(max_prompt_tokens=budget), (PLUS, STANDARD))
    return [message.content for message in result.prompt.messages]


def test_a_question_that_does_not_fit_is_refused_before_any_search() -> None:
    search = FakeRetriever()
    events = answer(
        make_rag(FakeModel(max_prompt_tokens=BARE - 1), search), ChatRequest((QUESTION,))
    )

    with pytest.raises(TooLong, match="too long for the model, which takes 12 tokens"):
        asyncio.run(collect(events))
    assert search.calls == []


def test_the_newest_turns_that_fit_are_kept_and_never_half_of_one() -> None:
    history = [*TURN, Message("user", "newer"), Message("assistant", "yes"), Message("user", "x")]
    room = 1000 - 0
    everything = prompt_texts(room, *history)
    sources = sum(len(text.split()) for text in everything[-1:]) - 4
    tight = BARE + sources

    assert everything[1:-1] == ["u1 u2", "a1 a2", "newer", "yes", "x"]
    assert prompt_texts(tight + 5 + 10 + TURN_COST, *history)[1:-1] == everything[1:-1]
    assert prompt_texts(tight + 5 + 10 + TURN_COST - 1, *history)[1:-1] == ["newer", "yes", "x"]
    assert prompt_texts(tight + 5 + 9, *history)[1:-1] == ["x"]
    assert prompt_texts(tight, *history)[1:-1] == []


def test_an_older_turn_is_not_kept_over_a_newer_one_that_does_not_fit() -> None:
    long = (Message("user", "word " * 500), Message("assistant", "yes"))

    assert prompt_texts(100, *TURN, *long)[1:-1] == []


def test_an_answer_without_a_question_before_it_belongs_to_no_later_turn() -> None:
    greeting = Message("assistant", "hello")

    assert split_turns((greeting, *TURN, *TURN)) == [[greeting], list(TURN), list(TURN)]


def test_sources_that_do_not_fit_are_left_out_worst_first_and_a_thought_says_so() -> None:
    async def ask(budget: int) -> Answer:
        model = FakeModel(max_prompt_tokens=budget)
        return await collect(answer(make_rag(model), ChatRequest((QUESTION, QUESTION))))

    line = len(PLUS.prompt_line().split())
    result = asyncio.run(ask(BARE + line))
    steps = result.context.steps

    assert result.context.sources == (PLUS,)
    assert STANDARD.prompt_line() not in steps[3].description[-1].content  # type: ignore[union-attr]
    assert len(steps[2].description) == 2
    assert steps[4].description == (
        "1 of the passages found did not fit the model and were left out.",
    )


def test_a_rewrite_trims_its_history_too() -> None:
    request = ChatRequest((*TURN, *TURN, QUESTION))
    tight = 1 + MESSAGE_TOKENS + 8 + MESSAGE_TOKENS + TURN_COST
    prompt = build_rewrite_prompt(request, PROMPTS, FakeModel(max_prompt_tokens=tight))

    assert [message.content for message in prompt.messages[1:-1]] == ["u1 u2", "a1 a2"]


def test_images_go_to_a_model_that_sees_and_a_thought_tells_of_one_that_does_not() -> None:
    request = ChatRequest((Message("user", "look", ("data:image/png;base64,AA==",)),))
    seeing, blind = FakeModel(), FakeModel(limits={"images": "fake cannot see images"})
    result = asyncio.run(collect(answer(make_rag(seeing), request)))
    unseen = asyncio.run(collect(answer(make_rag(blind), request)))

    assert seeing.calls[0].messages[-1].images == ("data:image/png;base64,AA==",)
    assert len(result.context.steps) == 4
    assert blind.calls[0].messages[-1].images == ()
    assert unseen.context.steps[4].description == ("fake cannot see images",)


PICTURE, CHART = "data:image/png;base64,AA==", "data:image/png;base64,BB=="
ILLUSTRATED = (replace(PLUS, image=PICTURE), STANDARD, replace(PLUS, id="c", image=CHART))


def ask_model(model: FakeModel, *images: str, **overrides: Any) -> tuple[Message, Answer]:
    """The question as the model got it, and the answer, of a search that finds images."""
    request = ChatRequest((Message("user", "look", images),), Overrides(**overrides))
    result = asyncio.run(collect(answer(make_rag(model, FakeRetriever(ILLUSTRATED)), request)))
    return model.calls[0].messages[-1], result


def test_the_images_of_sources_go_to_a_model_that_sees_each_named_by_its_source() -> None:
    question, result = ask_model(FakeModel(max_prompt_tokens=9000), "data:mine", use_gpt4v=True)
    lines = question.content.partition("Sources:\n")[2].split("\n")

    assert question.images == ("data:mine", PICTURE, CHART)
    assert result.context.images == (PICTURE, CHART)
    assert lines == [
        f"{PLUS.prompt_line()} (image 2)",
        STANDARD.prompt_line(),
        f"{PLUS.prompt_line()} (image 3)",
    ]
    assert len(result.context.steps) == 4


def test_an_image_stands_for_its_source_where_only_images_are_asked_for() -> None:
    model = FakeModel(max_prompt_tokens=9000)
    question, result = ask_model(model, use_gpt4v=True, gpt4v_input="images")
    lines = question.content.partition("Sources:\n")[2].split("\n")

    assert lines[:2] == [f"{PLUS.sourcepage}: (image 1)", STANDARD.prompt_line()]
    assert result.context.sources == ILLUSTRATED


def test_a_blind_model_gets_text_and_a_thought_says_so() -> None:
    question, result = ask_model(FakeModel(limits={"images": "fake is blind"}), use_gpt4v=True)

    assert question.images == result.context.images == ()
    assert "image" not in question.content
    assert result.context.steps[4].description == (
        "use_gpt4v was left out: fake is not known to see images; text was used.",
    )


def test_images_that_do_not_fit_are_left_out_and_a_thought_says_so() -> None:
    question, result = ask_model(FakeModel(max_prompt_tokens=1500), use_gpt4v=True)

    assert question.images == result.context.images == (PICTURE,)
    assert result.context.steps[4].description == (
        "1 of the images found did not fit the model and were left out.",
    )


def test_a_picture_of_an_earlier_turn_counts_too() -> None:
    turn = Message("user", "u1 u2", ("data:old",))
    fits = BARE + len(PLUS.prompt_line().split()) + len(STANDARD.prompt_line().split())

    assert prompt_texts(fits + 900, turn)[1:-1] == ["u1 u2"]
    assert prompt_texts(fits + 700, turn)[1:-1] == []
