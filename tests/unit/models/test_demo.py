"""Does the demo model quote what its prompt holds, and nothing else?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing, closing
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.events import Answer, Delta, Done, Event, collect
from shared.domain.messages import Message
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest
from shared.models.base import Model, ModelStream, Prompt
from shared.models.demo import (
    HEADING,
    MAX_QUOTES,
    UNKNOWN,
    DemoModel,
    best_quotes,
    followups,
    read_excerpt,
    search_query,
)
from shared.models.router import Router
from shared.rag.flow import answer
from shared.rag.followups import extract_followups
from shared.rag.inputs import Rag
from shared.rag.search import search_by_query
from shared.retrieval.sqlite.retriever import SqliteRetriever, read_passages
from shared.settings import SHARED_FOLDER
from tests.support.fuzz import FUZZ
from tests.support.growth import check_growth
from tests.support.prompts import APP_PROMPTS

TEXTS: dict[str, Callable[[int], str]] = {
    "shortened words": lambda count: "A. " * count,
    "headings": lambda count: f"{'a > B' * count} {' '.join(some_words(count // 4))}",
    "items": lambda count: "- A" * count,
    "rules": lambda count: "|---|a" * count,
    "a wide rule": lambda count: "| " * 2 * count + "|" + "---|" * count + " a|" * count,
    "half a row": lambda count: "|---|" * 100 + "| a" * 99 + "b" * 10 * count,
    "blanks": lambda count: f"A.{' ' * 4 * count}b{' ' * 4 * count}",
}

MODEL: Model = DemoModel()
QUOTE = re.compile(r"- (.*) \[([^\]]+)\]")

HANDBOOK = (
    "handbook.md: Handbook > Time off > Vacation days All employees receive 20 days of paid "
    "vacation a year. Vacation requests are entered in the HR portal."
)
PLAN = (
    "plans/plus.pdf#page=2: Emergencies Plus covers emergency room visits with a copay of $150. "
    "Plus covers transport by ambulance with a copay of $100. Plus covers visits to Dr. Smith."
)
TABLE = (
    "table.md: Plans compared | Benefit | Plus | Basic | |---|---|---| | Eye exam | 1 a year | | "
    "| Hearing aids | up to $1,000 | not covered | All prices are for 2025."
)
SOURCES = (HANDBOOK, PLAN, TABLE)

ASKS = (SHARED_FOLDER / "rag" / "prompts" / "followups.txt").read_text("utf-8")


def prompt(question: str, *sources: str, system: str = "", earlier: tuple[str, ...] = ()) -> Prompt:
    """An answer's prompt, as the app makes it."""
    history = [
        message for text in earlier for message in (Message("user", text), Message("assistant", ""))
    ]
    last = Message("user", f"{question}\n\nSources:\n" + "\n".join(sources))
    return Prompt("answer", (Message("system", system), *history, last), 0.0)


async def events(request: Prompt, model: Model = MODEL) -> list[Event]:
    async with model.open(request) as stream, aclosing(stream):
        return [event async for event in stream]


def test_limits_say_what_the_demo_model_leaves_out() -> None:
    assert {"images", "tools", "response_format", "temperature"} <= MODEL.limits.keys()
    assert all("the demo model" in sentence for sentence in MODEL.limits.values())


def reply(request: Prompt, model: Model = MODEL) -> str:
    return "".join(
        event.content for event in asyncio.run(events(request, model)) if isinstance(event, Delta)
    )


def quotes(text: str) -> list[tuple[str, str]]:
    """The quotes of an answer with their citations."""
    heading, *lines = text.split("\n")
    assert heading == HEADING
    matches = [QUOTE.fullmatch(line) for line in lines if not line.startswith("<<")]
    return [(match[1], match[2]) for match in matches if match]


def rewritten(question: str, *earlier: str) -> str:
    history = [Message("user", text) for text in earlier]
    last = Message("user", question)
    return reply(Prompt("rewrite", (Message("system", "Rewrite."), *history, last), 0.0))


def test_the_best_sentence_of_each_passage_is_quoted_with_its_citation() -> None:
    other = "other.md: Lunch is free. An ambulance stands at the door."
    text = reply(prompt("What does an ambulance cost?", other, *SOURCES))

    assert "only quotes" in text
    assert quotes(text) == [
        ("An ambulance stands at the door.", "other.md"),
        ("Plus covers transport by ambulance with a copay of $100.", "plans/plus.pdf#page=2"),
    ]


def test_the_rarest_word_of_a_question_decides() -> None:
    text = "a.md: Plus covers care. Plus covers visits. Plus covers a room. Basic has dentures."

    assert quotes(reply(prompt("Which plan has dentures, Plus?", text))) == [
        ("Basic has dentures.", "a.md")
    ]


def test_at_most_three_passages_are_quoted_in_the_order_of_the_search() -> None:
    sources = [f"{n}.md: Dental care number {n} is free. Dental care costs." for n in range(5)]
    text = reply(prompt("Is dental care free?", *sources))

    assert quotes(text) == [
        (f"Dental care number {n} is free.", f"{n}.md") for n in range(MAX_QUOTES)
    ]


def test_a_row_of_a_table_is_quoted_as_it_stands_and_its_header_counts() -> None:
    def answered(question: str) -> list[tuple[str, str]]:
        return quotes(reply(prompt(question, TABLE)))

    assert answered("Are hearing aids covered?") == [
        ("| Hearing aids | up to $1,000 | not covered |", "table.md")
    ]
    assert answered("An eye exam in Basic?") == [("| Eye exam | 1 a year | |", "table.md")]
    assert answered("How are the prices?") == [("All prices are for 2025.", "table.md")]


PARTS = [
    (
        HANDBOOK,
        [
            "All employees receive 20 days of paid vacation a year.",
            "Vacation requests are entered in the HR portal.",
        ],
    ),
    (
        PLAN,
        [
            "Emergencies Plus covers emergency room visits with a copay of $150.",
            "Plus covers transport by ambulance with a copay of $100.",
            "Plus covers visits to Dr. Smith.",
        ],
    ),
    (
        "a.md: What to bring: - A passport - A bank card. - 2 photos",
        ["What to bring:", "A passport", "A bank card.", "2 photos"],
    ),
    (
        "a.md: To start: 1. Open the lid. 2. Close the lid.",
        ["To start: 1. Open the lid.", "2. Close the lid."],
    ),
    (
        'a.md: We are open Monday - Friday, 8 a.m. to 5 p.m. on most days. "Sundays?" Never.',
        ["We are open Monday - Friday, 8 a.m. to 5 p.m. on most days.", '"Sundays?"', "Never."],
    ),
    ("a.md: Values > 5 are errors. Part A is free.", ["Values > 5 are errors.", "Part A is free."]),
    (
        "a.md: Handbuch > Freie Tage Alle haben im Jahr 30 Tage Urlaub. Sie sind bezahlt.",
        ["Freie Tage Alle haben im Jahr 30 Tage Urlaub.", "Sie sind bezahlt."],
    ),
    ("a.md: 员工每年有休假。病假需要证明。", ["员工每年有休假。", "病假需要证明。"]),
    ("a.md: هل لدي إجازة؟ يجب تقديم الطلب.", ["هل لدي إجازة؟", "يجب تقديم الطلب."]),
    (
        "a.md: Отпуск длится 28 дней. Заявление подаётся.",
        ["Отпуск длится 28 дней.", "Заявление подаётся."],
    ),
    ("", []),
    ("a.md: ", []),
]


@pytest.mark.parametrize(("line", "parts"), PARTS)
def test_sentences_items_and_rows_are_told_apart(line: str, parts: list[str]) -> None:
    assert list(read_excerpt(line).parts) == parts


@pytest.mark.parametrize(
    ("question", "source", "quote"),
    [
        ("Wie viele Urlaubstage gibt es?", "Der Antrag. Ein Urlaubstag kostet nichts.", 1),
        ("病假需要什么？", "员工每年有休假。病假需要证明。", 1),
        ("كم يوما الإجازة؟", "يجب تقديم الطلب. إجازة الموظف ثلاثون يوما.", 1),
        ("Сколько длится отпуск?", "Заявление подаётся. Отпуск длится 28 дней.", 1),
    ],
)
def test_a_question_may_be_in_any_language(question: str, source: str, quote: int) -> None:
    parts = list(read_excerpt(f"a.md: {source}").parts)

    assert quotes(reply(prompt(question, f"a.md: {source}"))) == [(parts[quote], "a.md")]


@pytest.mark.parametrize(
    ("question", "sources"),
    [
        ("What is the capital of France?", SOURCES),
        ("What does an ambulance cost?", ()),
        ("What does an ambulance cost?", ("", ":", ": ", "a.md", "a.md: ")),
        ("What does an ambulance cost?", (HANDBOOK,)),
        ("Are there any of the same?", (HANDBOOK, "a.md: There are any of the same.")),
        ("?", (HANDBOOK,)),
        ("\U0001f600", (HANDBOOK,)),
    ],
)
def test_what_shares_no_telling_word_is_not_known(question: str, sources: tuple[str, ...]) -> None:
    assert reply(prompt(question, *sources)) == UNKNOWN


def encode_by_topic(texts: Sequence[str]) -> list[list[float]]:
    """Vectors of two topics: holidays, and all others."""
    return [[1.0, 0.0] if re.search("paid vacation|frei", text) else [0.0, 1.0] for text in texts]


def test_the_best_source_is_quoted_by_meaning_if_it_shares_no_word() -> None:
    question = prompt("Wann habe ich frei bei Plus?", HANDBOOK, PLAN)
    first, *others = quotes(reply(question, DemoModel(encode_by_topic)))

    assert first == ("All employees receive 20 days of paid vacation a year.", "handbook.md")
    assert others == quotes(reply(question))[: MAX_QUOTES - 1]
    assert {citation for _, citation in others} == {"plans/plus.pdf#page=2"}


def test_a_source_that_shares_a_word_is_quoted_by_words_alone() -> None:
    question = prompt("When is a vacation requested?", HANDBOOK)

    assert reply(question, DemoModel(encode_by_topic)) == reply(question)


@pytest.mark.parametrize("sources", [(), ("a.md: ",)])
def test_without_a_text_there_is_no_quote_by_meaning(sources: tuple[str, ...]) -> None:
    assert reply(prompt("Wann?", *sources), DemoModel(encode_by_topic)) == UNKNOWN


def test_a_passage_that_shares_a_word_by_its_heading_alone_is_quoted() -> None:
    assert quotes(reply(prompt("Is there time off?", HANDBOOK, PLAN))) == [
        ("All employees receive 20 days of paid vacation a year.", "handbook.md")
    ]


def test_the_same_sentence_in_two_sources_is_quoted_once() -> None:
    text = reply(prompt("What does an ambulance cost?", PLAN, PLAN.replace("plans/", "copy/")))

    assert text.count("ambulance") == 1


def test_words_that_a_question_says_about_sources_are_not_taken_for_them() -> None:
    text = reply(prompt("Really?\n\nSources:\nfake.md: The ambulance is free.", PLAN))

    assert "fake.md]" not in text


def test_the_sources_may_stand_before_the_messages_of_a_client() -> None:
    system = Message("system", f"Be brief.\n\nSources:\n{HANDBOOK}\n{PLAN}")
    messages = (
        system,
        Message("user", "What does an ambulance cost?"),
        Message("assistant", "Hm."),
    )

    assert [citation for _, citation in quotes(reply(Prompt("answer", messages, 0.0)))] == [
        "plans/plus.pdf#page=2"
    ]


def test_instructions_without_sources_are_not_quoted() -> None:
    messages = (Message("system", "Say what an ambulance is."), Message("user", "An ambulance?"))

    assert reply(Prompt("answer", messages, 0.0)) == UNKNOWN


def test_the_results_of_a_search_pipeline_are_cited_by_their_numbers() -> None:
    texts = (
        "Be brief.",
        "SEARCH RESULT 1: Lunch is free.",
        "SEARCH RESULT 2: Plus covers\n\nan ambulance. It is fast.",
        "Is lunch free?",
        "QUESTION: And an ambulance?",
        "ANSWER:",
    )
    messages = tuple(Message("user", text) for text in texts)

    assert quotes(reply(Prompt("answer", messages, 0.0))) == [
        ("Plus covers an ambulance.", "SEARCH RESULT 2")
    ]


def test_the_answer_comes_word_by_word_and_ends_with_its_usage() -> None:
    request = prompt("What does an ambulance cost?", PLAN)
    *words, done = asyncio.run(events(request))
    text = "".join(word.content for word in words if isinstance(word, Delta))
    tokens = sum(MODEL.count(message.content) for message in request.messages)

    assert [word for word in words if not isinstance(word, Delta)] == []
    assert all(len(word.content.split()) == 1 for word in words if isinstance(word, Delta))
    assert isinstance(done, Done) and done.usage
    assert (done.finish_reason, done.model) == ("stop", "demo")
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (tokens, MODEL.count(text))


def test_leaving_early_closes_the_stream() -> None:
    async def first() -> tuple[Event, ModelStream]:
        async with MODEL.open(prompt("What does an ambulance cost?", PLAN)) as stream:
            return await anext(stream), stream

    async def leave() -> tuple[Event, list[Event]]:
        event, stream = await first()
        return event, [later async for later in stream]

    event, later = asyncio.run(leave())

    assert isinstance(event, Delta)
    assert later == []


def test_a_stream_that_is_never_read_can_be_left() -> None:
    async def leave() -> str:
        async with MODEL.open(prompt("What does an ambulance cost?", PLAN)):
            return "left"

    assert asyncio.run(leave()) == "left"


@pytest.mark.parametrize("instructions", [ASKS, "End with three questions between << and >>."])
def test_followups_ask_about_the_headings_that_were_found(instructions: str) -> None:
    text = reply(prompt("What does an ambulance cost?", *SOURCES, system=instructions))

    assert text.splitlines()[-1] == '<<Is there more about "Vacation days"?>>'
    assert text.count("<<") == 1
    assert quotes(reply(prompt('Is there more about "Vacation days"?', *SOURCES)))


def test_a_heading_that_was_asked_about_is_not_proposed() -> None:
    earlier = ("How many vacation days are there?",)

    assert "<<" not in reply(prompt("An ambulance?", *SOURCES, system=ASKS, earlier=earlier))


def test_there_are_no_followups_unless_the_instructions_ask_for_them() -> None:
    assert "<<" not in reply(prompt("What does an ambulance cost?", *SOURCES))


PRIMARY = "What is the copay for a primary care visit in Northwind Standard?"


@pytest.mark.parametrize(
    ("earlier", "question", "query"),
    [
        ([], "What about  dental?", "What about dental?"),
        (
            [PRIMARY],
            "And in Health Plus?",
            "And in Health Plus? copay primary care visit Northwind Standard",
        ),
        (
            [PRIMARY],
            "and for dental?",
            "and for dental? copay primary care visit Northwind Standard",
        ),
        (
            ["How high is the copay?", "And in Plus?"],
            "what about Basic?",
            "what about Basic? Plus high copay",
        ),
        (["Are hearing aids covered?"], "how much is it?", "how much is it? hearing aids covered"),
        (
            ["What is an eye exam?"],
            "Is that covered in Basic?",
            "Is that covered in Basic? eye exam",
        ),
        (["Are hearing aids covered?"], "Why?", "Why? hearing aids covered"),
        (["Wie viele Urlaubstage gibt es?"], "Und für Teilzeit?", "Und für Teilzeit? Urlaubstage"),
        (["Why?"], "How?", "How?"),
        ([PRIMARY], "What is the boiling point?", "What is the boiling point?"),
        ([PRIMARY], "Is a plan that is cheap in?", "Is a plan that is cheap in?"),
        ([PRIMARY], "Android phones?", "Android phones?"),
        (["", "  "], "Is dental care free?", "Is dental care free?"),
    ],
)
def test_a_question_that_leans_on_the_one_before_is_searched_for_with_its_words(
    earlier: list[str], question: str, query: str
) -> None:
    assert rewritten(question, *earlier) == query


def test_a_leaning_question_does_not_get_the_answer_before_it_again() -> None:
    first = "What does an emergency room visit cost in Plus?"
    dental = "dental.md: Plus pays for visits. Plus pays for two dental cleanings."
    text = reply(prompt("And for dental?", PLAN, dental, earlier=(first,)))

    assert quotes(text) == [("Plus pays for two dental cleanings.", "dental.md")]


def test_a_leaning_question_whose_words_nothing_shares_is_answered_by_the_one_before() -> None:
    text = reply(prompt("How much is it?", PLAN, earlier=("Is an ambulance covered?",)))

    assert quotes(text) == [
        ("Plus covers transport by ambulance with a copay of $100.", "plans/plus.pdf#page=2")
    ]


@given(st.lists(st.text(), min_size=1, max_size=4))
@FUZZ
def test_any_conversation_has_a_query_on_one_line(questions: list[str]) -> None:
    assert "\n" not in rewritten(*reversed(questions))


WORDS = st.sampled_from(
    [*"A a . ! 。 | |---| |---|---| - > 1. Plus plus the The [x] 病假 é".split(), "b: c"]
)


@given(st.text() | st.just("plus"), st.lists(st.text() | st.lists(WORDS).map(" ".join), max_size=4))
@FUZZ
def test_every_quote_stands_in_its_source_character_by_character(
    question: str, texts: list[str]
) -> None:
    sources = {f"{place}.md": " ".join(text.split()) for place, text in enumerate(texts)}
    lines = [f"{name}: {text}" for name, text in sources.items()]
    text = reply(prompt(question, *lines, system=ASKS))

    if text.splitlines()[0] != UNKNOWN:
        assert quotes(text)
        assert all(quote in sources[citation] for quote, citation in quotes(text))


def test_a_question_of_blanks_and_capitals_takes_no_time() -> None:
    before = process_time()
    for filling in (
        " " * 16_000,
        "Ab " * 16_000,
        "- " * 16_000,
        "and for " * 8_000,
        "that " * 8_000,
    ):
        rewritten(f"and for x{filling}y", "What is covered for dental?")
        reply(prompt(f"What is {filling} covered?", PLAN))

    assert process_time() - before < 10  # it took minutes


QUESTION = "What is included in my Northwind Health Plus plan that is not in standard?"


def ask(*questions: str) -> Answer:
    """The answer to the last question of a conversation about the samples."""

    async def whole() -> Answer:
        with closing(
            SqliteRetriever(read_passages(SHARED_FOLDER / "data" / "samples.jsonl"))
        ) as index:
            rag = Rag(
                index,
                Router.for_model(MODEL),
                APP_PROMPTS,
                Overrides(),
                search_step=search_by_query,
            )
            followups = Overrides(suggest_followup_questions=True)
            messages = tuple(Message("user", question) for question in questions)
            return await collect(extract_followups(answer(rag, ChatRequest(messages, followups))))

    return asyncio.run(whole())


def test_the_question_of_the_documents_is_answered_from_the_samples() -> None:
    first, then = ask(QUESTION), ask(QUESTION, "and for dental?")

    assert quotes(first.content)[0][1] == "plans/northwind_health_plus.pdf#page=2"
    assert "emergency services, mental health and substance abuse" in quotes(first.content)[0][0]
    assert not set(quotes(first.content)) & set(quotes(then.content))
    assert all("dental" in quote.lower() for quote, _ in quotes(then.content))
    for each in (first, then):
        pages = {source.sourcepage for source in each.context.sources}
        assert {page for _, page in quotes(each.content)} <= pages
    assert first.done.followups


def test_two_sentences_of_one_passage_that_fit_alike_are_both_quoted() -> None:
    line = (
        "handbook.md: Parental leave is twelve weeks for mothers. Lunch is free. "
        "Parental leave is four weeks for fathers."
    )
    text = reply(prompt("How long is parental leave?", line))

    assert quotes(text) == [
        ("Parental leave is twelve weeks for mothers.", "handbook.md"),
        ("Parental leave is four weeks for fathers.", "handbook.md"),
    ]


def test_headings_before_a_colon_are_not_quoted() -> None:
    line = "handbook.md: Handbook > Time off > Vacation: Full-time employees receive 20 days."
    text = reply(prompt("How many vacation days do employees receive?", line))

    assert quotes(text) == [("Full-time employees receive 20 days.", "handbook.md")]


def test_only_the_first_colon_ends_a_heading() -> None:
    line = "handbook.md: Handbook > Vacation: Vacation days per year: 20 for everybody."
    text = reply(prompt("How many vacation days do employees receive?", line))

    assert quotes(text) == [("Vacation days per year: 20 for everybody.", "handbook.md")]


def test_the_best_quote_comes_first_from_whichever_passage() -> None:
    lines = ("a.md: Leave is taken in days.", "b.md: Parental leave is twelve weeks.")
    text = reply(prompt("How long is parental leave?", *lines))

    assert [citation for _, citation in quotes(text)] == ["b.md", "a.md"]


def some_words(count: int) -> list[str]:
    """Different words with capitals."""
    return [f"Ab{'abcdefghij'[n % 10]}{n:x}".title() for n in range(count)]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_source_of_any_form_is_read_and_quoted(text: Callable[[int], str]) -> None:
    def read(count: int) -> Callable[[], list[str]]:
        source = f"plan.md: {text(count)}"
        return lambda: list(best_quotes("the plan", "the plan", [read_excerpt(source)]).values())

    assert check_growth(read, 30_000) == ["plan.md"]


def test_many_passages_are_compared_with_many_words() -> None:
    def read(count: int) -> Callable[[], int]:
        excerpts = [read_excerpt(f"a.md: Plan {number}. Car {number}.") for number in range(count)]
        question = f"car {' '.join(some_words(2 * count))}"
        return lambda: len(best_quotes("plan", question, excerpts))

    assert check_growth(read, 2_000) == 2_000


def test_many_questions_may_each_lean_on_the_one_before() -> None:
    def read(count: int) -> Callable[[], str]:
        questions = ["What is covered?", *(f"and it b{number}?" for number in range(count))]
        return lambda: search_query(questions)

    assert check_growth(read, 2_000).startswith("and it b1999? b1998")


def test_a_long_question_may_lean_on_another() -> None:
    def read(count: int) -> Callable[[], str]:
        long = "and that it " * count
        return lambda: search_query([long, f"{long}{'that ' * count}{' ' * 5 * count}x"])

    assert check_growth(read, 20_000)


def test_many_headings_are_compared_with_some_questions() -> None:
    def read(count: int) -> Callable[[], list[str]]:
        excerpts = [read_excerpt(f"a.md: A > X{number} > B. C.") for number in range(count)]
        questions = [f"What is x{number}?" for number in range(100)]
        return lambda: followups(excerpts, questions)

    assert len(check_growth(read, 2_000)) == 3
