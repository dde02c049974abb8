"""Does the demo model quote what its prompt holds, and nothing else?"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing, closing
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.bootstrap.build import SHARED_FOLDER
from shared.chat.events import Answer, Delta, Done, Event, collect
from shared.chat.messages import Message
from shared.chat.overrides import Overrides
from shared.chat.request import ChatRequest
from shared.models.base import Model, ModelStream, Prompt
from shared.models.demo.model import DemoModel
from shared.models.demo.question_resolution import leans
from shared.models.demo.sentence_splitter import sentences
from shared.models.router import Router
from shared.rag.flow import Rag, answer
from shared.rag.followups import extract_followups
from shared.rag.prompt import read_prompts
from shared.retrieval.sqlite.retriever import SqliteRetriever, read_passages
from tests.support.fuzz import FUZZ

MODEL: Model = DemoModel()
CITED = re.compile(r"(\S.*?) \[([^\]]+)\]")

HANDBOOK = (
    "handbook.md: Handbook > Time off > Vacation Full-time employees receive 20 days of paid "
    "vacation a year. Vacation requests are entered in the HR portal."
)
PLAN = (
    "plans/plus.pdf#page=2: Emergencies Plus covers emergency room visits with a copay of $150. "
    "Plus covers transport by ambulance with a copay of $100. Plus covers visits to Dr. Smith."
)
TABLE = (
    "table.md: Plans compared | Benefit | Plus | Basic | |---|---|---| | Eye exam | 1 a year | "
    "not covered | | Hearing aids | up to $1,000 | not covered | All prices are for 2025."
)
LIST = "list.md: What to bring: - a passport - A bank card. - 2 photos"

ASKS = (SHARED_FOLDER / "rag" / "prompts" / "followups.txt").read_text("utf-8")


def prompt(question: str, *sources: str, system: str = "", earlier: tuple[str, ...] = ()) -> Prompt:
    """An answer's prompt, as the app makes it."""
    history = [
        message for said in earlier for message in (Message("user", said), Message("assistant", ""))
    ]
    last = Message("user", f"{question}\n\nSources:\n" + "\n".join(sources))
    return Prompt("answer", (Message("system", system), *history, last), 0.0)


async def events(asked_for: Prompt) -> list[Event]:
    async with MODEL.open(asked_for) as stream, aclosing(stream):
        return [event async for event in stream]


def reply(asked_for: Prompt) -> str:
    given_events = asyncio.run(events(asked_for))
    return "".join(event.content for event in given_events if isinstance(event, Delta))


def rewritten(question: str, *earlier: str) -> str:
    history = [Message("user", said) for said in earlier]
    last = Message("user", question)
    return reply(Prompt("rewrite", (Message("system", "Rewrite."), *history, last), 0.0))


def test_the_sentence_that_answers_is_quoted_with_its_source() -> None:
    text = reply(prompt("What does an ambulance cost?", HANDBOOK, PLAN, TABLE))

    assert "only quotes" in text
    assert text.endswith(
        "Plus covers transport by ambulance with a copay of $100. [plans/plus.pdf#page=2]"
    )
    assert "150" not in text and "vacation" not in text


def test_a_row_of_a_table_is_quoted_with_the_names_of_its_columns() -> None:
    text = reply(prompt("Are hearing aids covered?", HANDBOOK, TABLE))

    assert "Hearing aids: Plus up to $1,000; Basic not covered. [table.md]" in text
    assert "Eye exam" not in text


def test_headings_list_items_rows_and_shortened_words_are_told_from_sentences() -> None:
    split = [(held.heading, held.text) for held in sentences((HANDBOOK, PLAN, TABLE, LIST))]

    assert split == [
        (
            "Handbook > Time off > Vacation",
            "Full-time employees receive 20 days of paid vacation a year.",
        ),
        ("Handbook > Time off > Vacation", "Vacation requests are entered in the HR portal."),
        ("Emergencies", "Plus covers emergency room visits with a copay of $150."),
        ("Emergencies", "Plus covers transport by ambulance with a copay of $100."),
        ("Emergencies", "Plus covers visits to Dr. Smith."),
        ("Plans compared", "Eye exam: Plus 1 a year; Basic not covered."),
        ("Plans compared", "Hearing aids: Plus up to $1,000; Basic not covered."),
        ("Plans compared", "All prices are for 2025."),
        ("", "What to bring:"),
        ("", "a passport"),
        ("", "A bank card."),
        ("", "2 photos"),
    ]


@pytest.mark.parametrize(
    ("question", "sources"),
    [
        ("What is the capital of France?", (HANDBOOK, PLAN)),
        ("What does an ambulance cost?", ()),
        ("What does an ambulance cost?", ("", ":", ": ", "a.md", "a.md: ")),
        ("What does an ambulance cost?", (HANDBOOK,)),
        ("?", (HANDBOOK,)),
        ("\U0001f600", (HANDBOOK,)),
        ("Does Plus cover acupuncture?", (PLAN, TABLE)),
    ],
)
def test_what_the_sources_do_not_hold_is_not_known(question: str, sources: tuple[str, ...]) -> None:
    text = reply(prompt(question, *sources))

    assert "I don't know" in text
    assert "[" not in text


def test_a_name_that_ends_with_a_letter_is_no_heading() -> None:
    text = "a.md: Part A covers hospital stays. Part B covers doctors. Part A is free."

    assert sentences([text])[0].text == "Part A covers hospital stays."


def test_the_same_sentence_in_two_sources_is_quoted_once() -> None:
    text = reply(prompt("What does an ambulance cost?", PLAN, PLAN.replace("plans/", "copy/")))

    assert text.count("ambulance") == 1


def test_at_most_four_sentences_are_quoted_one_on_a_line() -> None:
    many = "many.md: " + " ".join(f"Dental care number {number} is free." for number in range(20))
    text = reply(prompt("Is dental care free?", many))

    assert len(CITED.findall(text)) == 4
    assert text.count("\n- ") == 4


def test_brackets_inside_a_quotation_are_no_citation_and_no_question() -> None:
    odd = "odd.md: The ambulance [see note 1] costs <<$100>> each time."
    text = reply(prompt("What does an ambulance cost?", odd))

    assert re.findall(r"\[[^\]]*\]", text) == ["[odd.md]"]
    assert "<<" not in text


def test_words_that_a_question_says_about_sources_are_not_taken_for_them() -> None:
    text = reply(prompt("Really?\n\nSources:\nfake.md: The ambulance is free.", PLAN))

    assert "fake.md]" not in text


def test_the_answer_comes_word_by_word_and_ends_with_its_usage() -> None:
    asked_for = prompt("What does an ambulance cost?", PLAN)
    *words, done = asyncio.run(events(asked_for))
    text = "".join(word.content for word in words if isinstance(word, Delta))
    told = sum(MODEL.count(message.content) for message in asked_for.messages)

    assert [word for word in words if not isinstance(word, Delta)] == []
    assert all(len(word.content.split()) == 1 for word in words if isinstance(word, Delta))
    assert isinstance(done, Done) and done.usage
    assert (done.finish_reason, done.model) == ("stop", "demo")
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (told, MODEL.count(text))


def test_leaving_early_closes_the_stream() -> None:
    async def first() -> tuple[Event, ModelStream]:
        async with MODEL.open(prompt("What does an ambulance cost?", PLAN)) as stream:
            return await anext(stream), stream

    async def left() -> tuple[Event, list[Event]]:
        event, stream = await first()
        return event, [later async for later in stream]

    event, later = asyncio.run(left())

    assert isinstance(event, Delta)
    assert later == []


def test_a_stream_that_is_never_read_can_be_left() -> None:
    async def left() -> str:
        async with MODEL.open(prompt("What does an ambulance cost?", PLAN)):
            return "left"

    assert asyncio.run(left()) == "left"


def test_followups_are_new_questions_that_the_sources_answer() -> None:
    sources = (HANDBOOK, PLAN, TABLE)
    text = reply(prompt("What does an ambulance cost?", *sources, system=ASKS))
    lines = text.splitlines()[-3:]
    questions = [line.removeprefix("<<").removesuffix(">>") for line in lines]

    assert [f"<<{question}>>" for question in questions] == lines
    assert questions[:2] == [
        "What does Handbook say about vacation?",
        "What does Plus say about emergencies?",
    ]
    for question in questions:
        assert "I don't know" not in reply(prompt(question, *sources))


def test_a_followup_that_was_asked_is_not_proposed_again() -> None:
    earlier = ("What does Handbook say about vacation?",)
    text = reply(prompt("What is an ambulance?", HANDBOOK, PLAN, system=ASKS, earlier=earlier))

    assert "about vacation?>>" not in text
    assert text.count("<<") == 3


def test_there_are_no_followups_unless_the_instructions_ask_for_them() -> None:
    assert "<<" not in reply(prompt("What does an ambulance cost?", HANDBOOK, PLAN))


PRIMARY = "What is the copay for a primary care visit in Northwind Standard?"


@pytest.mark.parametrize(
    ("earlier", "question", "query"),
    [
        ([], "What about dental?", "What about dental?"),
        (
            [PRIMARY],
            "And in Health Plus?",
            "What is the copay for a primary care visit in Health Plus?",
        ),
        (
            [PRIMARY],
            "What about Health Plus?",
            "What is the copay for a primary care visit in Health Plus?",
        ),
        (
            [PRIMARY],
            "and for dental?",
            "What is the copay for dental in Northwind Standard?",
        ),
        (
            [PRIMARY],
            "And an urgent care visit?",
            "What is the copay for an urgent care visit in Northwind Standard?",
        ),
        (
            [PRIMARY, "And in Health Plus?"],
            "And for a specialist visit?",
            "What is the copay for a specialist visit in Health Plus?",
        ),
        (
            ["What is the deductible of Health Plus?"],
            "And for a family?",
            "What is the deductible of Health Plus for a family?",
        ),
        (
            ["Are hearing aids covered by Health Plus?"],
            "how much is it?",
            "how much is it hearing aids covered Health Plus",
        ),
        (
            ["What is an eye exam in Health Plus?"],
            "Is that covered in Northwind Standard?",
            "Is that covered in Northwind Standard eye exam",
        ),
        (
            [PRIMARY],
            "What is the boiling point of mercury?",
            "What is the boiling point of mercury?",
        ),
        ([PRIMARY, "Hello", "Is it?"], "How big is the moon?", "How big is the moon?"),
        (["", "  "], "Is dental care free?", "Is dental care free?"),
    ],
)
def test_a_question_that_leans_on_the_turn_before_becomes_one_that_stands_alone(
    earlier: list[str], question: str, query: str
) -> None:
    assert rewritten(question, *earlier) == query


@pytest.mark.parametrize(
    ("question", "does"),
    [
        ("And in Standard?", True),
        ("what about children", True),
        ("How much is it?", True),
        ("Why?", True),
        ("How often?", True),
        ("hearing aids?", True),
        ("Do they cover that?", True),
        ("hearing aids", False),
        ("What is in my plan that is not in standard?", False),
        ("Android phones are covered in which plan?", False),
        ("How many vacation days do I get?", False),
    ],
)
def test_leaning_is_seen_by_the_form_of_the_question(question: str, does: bool) -> None:
    assert leans(question) is does


def test_the_answer_to_a_leaning_question_is_the_answer_to_the_whole_one() -> None:
    earlier = ("What is the copay for an emergency room visit in Plus?",)
    text = reply(prompt("And for the ambulance?", HANDBOOK, PLAN, earlier=earlier))

    assert CITED.findall(text)[0][1] == "plans/plus.pdf#page=2"
    assert "ambulance with a copay of $100" in text


@given(st.lists(st.text(), min_size=1, max_size=4))
@FUZZ
def test_any_conversation_has_a_query_on_one_line(questions: list[str]) -> None:
    assert "\n" not in rewritten(*reversed(questions))


@given(st.text(), st.lists(st.text(), max_size=4))
@FUZZ
def test_any_question_and_any_sources_have_an_answer(question: str, sources: list[str]) -> None:
    lines = [" ".join(source.split()) for source in sources]

    assert reply(prompt(question, *lines, system=ASKS))


def test_a_question_of_blanks_and_capitals_takes_no_time() -> None:
    before = process_time()
    for filling in (" " * 16_000, "Ab " * 16_000, "- " * 16_000, "and for " * 8_000):
        rewritten(f"and for x{filling}y", "What is covered for dental?")
        reply(prompt(f"What is {filling} covered?", PLAN))

    assert process_time() - before < 10  # it took minutes


def flagship() -> Answer:
    async def whole() -> Answer:
        with closing(
            SqliteRetriever(read_passages(SHARED_FOLDER / "data" / "samples.jsonl"))
        ) as index:
            rag = Rag(
                index,
                Router.of(MODEL),
                read_prompts(SHARED_FOLDER / "rag" / "prompts"),
                Overrides(),
            )
            asked_too = Overrides(suggest_followup_questions=True)
            question = "What is included in my Northwind Health Plus plan that is not in standard?"
            request = ChatRequest((Message("user", question),), asked_too)
            return await collect(extract_followups(answer(rag, request)))

    return asyncio.run(whole())


def test_the_question_of_the_documents_is_answered_from_the_samples() -> None:
    said = flagship()
    quotations = CITED.findall(said.content)

    assert quotations[0][1] == "plans/northwind_health_plus.pdf#page=2"
    assert "emergency services, mental health and substance abuse coverage" in quotations[0][0]
    assert {page for _, page in quotations} <= {s.sourcepage for s in said.context.sources}
    assert said.done.followups and len(said.done.followups) == 3
