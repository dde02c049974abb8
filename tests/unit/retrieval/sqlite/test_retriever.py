"""The embedded index: matching of words, filters, scores, access control, notes."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.errors import (
    BadRequest,
    ChatError,
    DeadlineExceeded,
    Misconfigured,
    TooManyRequests,
    Unavailable,
)
from shared.domain.events import Source
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.base import SearchResult
from shared.retrieval.sqlite.connections import build_in_memory
from shared.retrieval.sqlite.ranking import RERANKED
from shared.retrieval.sqlite.retriever import SqliteRetriever, read_passages
from shared.retrieval.sqlite.schema import IndexMeta
from shared.retrieval.sqlite.search import MAX_RANKED, SearchQuery, text_search
from shared.settings import SHARED_FOLDER
from shared.text import MAX_TERMS, extract_terms, fts_queries, join_fts_queries
from tests.support.fuzz import FUZZ
from tests.support.vector_index import index_with_equal_vectors

SAMPLES = SHARED_FOLDER / "data" / "samples.jsonl"
NOBODY = User()


def passage(
    content: str, name: str = "a.md", category: str | None = None, groups: tuple[str, ...] = ()
) -> Source:
    return Source(name, content, name, name, category, groups=groups)


def search(
    passages: Iterable[Source], query: str, user: User = NOBODY, **overrides: Any
) -> SearchResult:
    with closing(SqliteRetriever(passages)) as index:
        return asyncio.run(index.search(user, query, Overrides(**overrides)))


def names(result: SearchResult) -> list[str]:
    return [source.sourcepage for source in result.sources]


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("Unused vacations are paid out.", "vacation"),
        ("Every vacation is paid.", "Vacations?"),
        ("The psychotherapist is paid.", "psycho"),
        ("Ask for reimbursement.", "How is it reimbursed?"),
        ("The café is open.", "cafe"),
        ("The cafe is open.", "CAFÉ"),
        ("The cafe\u0301 is open.", "café"),
        ("Die Straße ist gesperrt.", "strasse"),
        ("Die STRASSE ist gesperrt.", "Straße"),
        ("该计划涵盖任何医院的急诊室就诊。", "急诊室"),
        ("医", "医"),
        ("Der Vertrag endet mit der Kündigung.", "Wann enden die Verträge?"),
        ("Die Krankenhäuser rechnen selbst ab.", "Was zahle ich im Krankenhaus?"),
        ("Das Krankenhaus rechnet selbst ab.", "Welche Krankenhäuser gibt es?"),
        ("Les médecins sont remboursés.", "Quel medecin est rembourse ?"),
        ("يغطي التأمين زيارات الطوارئ.", "ما هو تأمين الطوارئ؟"),
        ("تُدفع الأُجُور شهريًّا.", "متى تدفع الاجور؟"),
        ("رصيد الإجازة السنوية", "إجازه سنويه"),
        ("يوقع الموظف العقد.", "من هم الموظفون؟"),
        ("الموظفون في إجازة.", "أين الموظف؟"),
        ("تكاليف المستشـــفى", "بالمستشفى"),
        ("แผนนี้ครอบคลุมการรักษาพยาบาล", "รักษา"),
        ("救急外来の自己負担は150ドルです。", "自己負担"),
        ("Written in C++ and C#.", "C++"),
        ("The \uff46\uff55\uff4c\uff4c width.", "full"),
        ("It isn't covered.", "not covered"),
        ("The card was lost.", "I lose my card"),
        ("It is what it is.", "What is it?"),
        ("Ref 4357-AB.", "4357"),
        (f"The key {'x' * 70} is old.", "x" * 70),
    ],
)
def test_a_word_matches_its_other_forms(content: str, query: str) -> None:
    result = search([passage("Something else."), passage(content, "right.md")], query)

    assert names(result)[:1] == ["right.md"]


@given(st.text(st.characters(codec="ascii") | st.sampled_from("n't' N'T")))
def test_ascii_text_has_the_same_terms_next_to_other_text(text: str) -> None:
    assert extract_terms(f"{text} caf\u00e9") == [*extract_terms(text), "caf\u00e9"]


def test_a_short_word_is_not_a_prefix_of_another() -> None:
    assert names(search([passage("Health care.")], "car")) == []


def test_words_of_the_file_name_match_with_a_higher_weight() -> None:
    passages = [passage("About dental care.", "x.md"), passage("Costs.", "plans/dental_plan.pdf")]

    assert names(search(passages, "dental")) == ["plans/dental_plan.pdf", "x.md"]


def test_a_word_in_a_heading_counts_more_than_one_in_the_text() -> None:
    text = "Fees\n\nThe plan covers half of them."
    passages = [
        passage("The plan covers half of the fees.", "text.md"),
        replace(passage(text, "titled.md"), heading="Fees"),
        passage(text.replace("Fees", "About fees"), "plain.md"),
    ]

    assert names(search(passages, "fees"))[0] == "titled.md"


MARKS = "( ) \" ' '' * ^ % _ \\ \0 - + : {} ; \u202e \u0301 \ud800 \U0001f600 \u0e47 \xbd".split()
SYNTAX = [
    "C++",
    "foo:bar",
    "body:x",
    "what-if",
    "NEAR",
    "NEAR(",
    "AND",
    "OR",
    "NOT",
    "x*",
    "^x",
    "n't",
]
HOSTILE = [
    *("", " ", "\n\t\r", *MARKS, *SYNTAX),
    *('an "open quote', "NEAR(a b, 2)", "a AND", "AND OR NOT", "a + b", "{body name} : x"),
    *(
        "- body : x",
        "a\0b",
        "a\udfffb",
        "';-- DROP TABLE passage",
        "\u0130",
        "\xdf",
        "\uff11\uff12",
    ),
    *("x" * 1_000_000, "word " * 200_000, "\u533b" * 1_000_000, "(" * 1_000_000, "a1" * 500_000),
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_no_query_is_a_syntax_error(query: str) -> None:
    assert isinstance(search([passage("Some words.")], query), SearchResult)


def match_rows(database: sqlite3.Connection, match: str) -> list[object]:
    return database.execute("SELECT * FROM t WHERE t MATCH ?", (match,)).fetchall()


@given(st.text())
@FUZZ
def test_any_text_is_a_valid_query(query: str) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
        match = join_fts_queries(fts_queries(query))

        assert bool(match) == bool(extract_terms(query))
        assert not match or match_rows(database, match) == []


def test_a_query_has_a_limited_number_of_different_terms() -> None:
    queries = fts_queries(" ".join(f"word{number} word{number}" for number in range(100)))

    assert len(set(queries)) == len(queries) == MAX_TERMS


def test_function_words_are_searched_only_if_there_are_no_others() -> None:
    assert fts_queries("What is the deductible?") == ['"deductible"*']
    assert fts_queries("What is it?") == ['"what"*', '"is"', '"it"']


def test_a_word_of_four_letters_finds_longer_words() -> None:
    passages = [passage("Chatbots answer.", "a.md"), passage("Charts explain.", "b.md")]

    assert names(search(passages, "chat")) == ["a.md"]


@pytest.mark.parametrize("word", ["insurrance", "insured", "insurances"])
def test_a_word_is_found_by_its_longest_beginning_that_a_passage_has(word: str) -> None:
    passages = [passage("Your insurance pays.", "a.md"), passage("Inside the office.", "b.md")]

    assert names(search(passages, f"Who pays the {word}?")) == ["a.md"]
    assert names(search(passages, word)) == ["a.md"]


def test_an_unknown_word_without_a_similar_beginning_finds_nothing() -> None:
    passages = [passage("Your insurance pays.", "a.md")]

    assert names(search(passages, "insects")) == []


IN_LANGUAGES = {
    "de": (
        "Wie viele Tage Urlaub haben die Mitarbeiter im ersten Jahr?",
        "Im ersten Jahr haben Mitarbeiter 25 Tage Urlaub.",
        "Die Kündigung und die Frist, die für sie gilt, stehen in dem Vertrag, den die Firma hat.",
    ),
    "fr": (
        "Quel est le montant du remboursement pour les lunettes ?",
        "Le remboursement des lunettes : 150 euros, montant annuel.",
        "Le contrat est le même pour tous, et les dates du début et de la fin sont dans le texte.",
    ),
    "es": (
        "¿Cuántos días de vacaciones tienen los empleados?",
        "Los empleados: 22 días de vacaciones.",
        "El contrato de la empresa dice lo que es de los que están en ella, y de ellos.",
    ),
    "ar": (
        "كم عدد أيام الإجازة السنوية للموظفين؟",
        "الإجازة السنوية 30 يومًا، وعدد أيام المرض 10.",
        "هذا هو العقد الذي كان في الشركة من قبل، وهو على ما كان عليه إلى الآن مع كل ما فيه.",
    ),
    "zh": (
        "员工每年有多少天带薪休假？",
        "员工每年享有十五天带薪休假。",
        "本合同由双方签署。一式两份。自签署之日起生效。",
    ),
}


@pytest.mark.parametrize("language", IN_LANGUAGES)
def test_function_words_of_another_language_do_not_affect_the_ranking(language: str) -> None:
    question, right, wordy = IN_LANGUAGES[language]
    others = [passage(texts[2], f"{name}.md") for name, texts in IN_LANGUAGES.items()]
    passages = [*others, *(passage(wordy, f"wordy{n}.md") for n in range(9))]

    assert names(search([*passages, passage(right, "right.md")], question)) == ["right.md"]


def test_function_words_depend_on_the_language_of_the_query() -> None:
    assert fts_queries("What if I die in a war?") == ['"die"', '"war"']
    assert fts_queries("Was ist die Versicherung?") == ['"versicherung"*']


CATEGORIES = [passage(f"Dental {name}.", f"{name}.md", name) for name in ("plans", "company")]
CATEGORIES.append(passage("Dental care.", "none.md"))


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, {"plans.md", "company.md", "none.md"}),
        ({"include_category": "plans"}, {"plans.md"}),
        ({"exclude_category": "plans"}, {"company.md", "none.md"}),
        ({"include_category": "company", "exclude_category": "plans"}, {"company.md"}),
        ({"include_category": "plans", "exclude_category": "plans"}, set()),
        ({"include_category": "x' OR '1'='1"}, set()),
        ({"exclude_category": '"'}, {"plans.md", "company.md", "none.md"}),
    ],
)
def test_categories_are_included_and_excluded(
    overrides: dict[str, str], expected: set[str]
) -> None:
    assert set(names(search(CATEGORIES, "dental", NOBODY, **overrides))) == expected


def test_the_default_of_top_is_ten() -> None:
    passages = [passage(f"Dental {number}.", f"{number}.md") for number in range(60)]

    assert len(search(passages, "dental").sources) == 10
    assert len(search(passages, "dental", top=1).sources) == 1
    assert len(search(passages, "dental", top=50).sources) == 50


def test_a_rare_word_is_found_in_a_large_index() -> None:
    everywhere = (
        passage("The plan and its cost.", f"{number}.md") for number in range(MAX_RANKED + 9)
    )
    rarer = [passage(f"The plan of pharmacy {each}.", f"p{each}.md") for each in range(60)]
    right = passage("A plan that says dental, and its cost.", "right.md")
    passages = [*everywhere, *rarer, right]
    query = "dental plan cost"
    with closing(SqliteRetriever(passages)) as index:
        top_1, top_2 = (
            names(asyncio.run(index.search(NOBODY, query, Overrides(top=top)))) for top in (1, 2)
        )
        many = names(asyncio.run(index.search(NOBODY, "pharmacy plan", Overrides(top=50))))

    assert len(set(many)) == 50
    assert set(many) <= {each.sourcepage for each in rarer}
    assert top_1 == ["right.md"]
    assert top_2 == ["right.md", "0.md"]


def test_empty_index_says_how_to_fill_it() -> None:
    sentence = "The index has no passages: fill it, for example by `make index DOCS=folder`."
    with closing(SqliteRetriever([])) as index, pytest.raises(Misconfigured) as failure:
        asyncio.run(index.ready())

    assert (failure.value.message, failure.value.cause) == (sentence, sentence)


def test_scores_are_positive_and_the_best_is_first() -> None:
    with closing(SqliteRetriever(read_passages(SAMPLES))) as index:
        overrides = Overrides(top=50)
        result = asyncio.run(index.search(NOBODY, "emergency room visit in Northwind", overrides))
    scores = [source.score or 0.0 for source in result.sources]

    assert len(scores) > 20
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


def test_the_same_text_is_returned_once_and_takes_one_place() -> None:
    copies = [passage(f"Dental{' ' * number} care.", f"copy{number}.md") for number in range(1, 9)]
    others = [passage(f"Dental {name}.", f"{name}.md") for name in ("plans", "costs")]
    result = search([*copies, *others], "dental care", top=3)

    assert names(result) == ["copy1.md", "costs.md", "plans.md"]


def test_a_user_finds_the_copy_that_he_may_see() -> None:
    copies = [passage("Dental care.", "a.md", groups=("g",)), passage("Dental care.", "b.md")]

    assert names(search(copies, "dental", use_groups_security_filter=True)) == ["b.md"]


TOPIC = "dentists teeth gums crowns"
LIKE, UNLIKE = passage(f"Fees of {TOPIC}.", "z.md"), passage("Fees of roads trams ships.", "a.md")
FILLING = [passage(f"Something else {number}.", f"{number}.txt") for number in range(9)]


def test_passages_with_the_words_of_the_best_one_move_up() -> None:
    best = passage(f"Fees, fees, fees: {TOPIC}.", "best.md")

    assert names(search([UNLIKE, LIKE, *FILLING], "fees")) == ["a.md", "z.md"]
    assert names(search([best, UNLIKE, LIKE, *FILLING], "fees")) == ["best.md", "z.md", "a.md"]


def test_hidden_passages_do_not_move_others() -> None:
    best = replace(passage(f"Fees, fees, fees: {TOPIC}.", "best.md"), groups=("g",))
    index, reader = [best, UNLIKE, LIKE, *FILLING], User("oid", ("g",))
    unseen = search(index, "fees", NOBODY, use_groups_security_filter=True)
    seen = search(index, "fees", reader, use_groups_security_filter=True)

    assert names(unseen) == ["a.md", "z.md"]
    assert names(seen) == ["best.md", "z.md", "a.md"]


def test_passages_behind_the_re_ranked_ones_keep_their_order() -> None:
    passages = [passage(f"Fees {'and more ' * n}.", f"{n:02}.md") for n in range(RERANKED + 40)]
    result = search(passages, "fees", top=50)
    scores = [source.score or 0 for source in result.sources]

    assert names(result)[RERANKED:] == [f"{n:02}.md" for n in range(RERANKED, 50)]
    assert scores == sorted(scores, reverse=True)


def test_the_only_passage_has_a_positive_score() -> None:
    assert (search([passage("Dental.")], "dental").sources[0].score or 0.0) > 0


def test_passages_below_the_minimum_score_are_left_out() -> None:
    passages = [passage("Dental care, dental plan.", "best.md"), passage("Dental and so on.", "b")]
    passages += [passage("Vision.", str(number)) for number in range(9)]
    scores = [source.score for source in search(passages, "dental").sources]

    assert names(search(passages, "dental", minimum_search_score=scores[0])) == ["best.md"]
    assert names(search(passages, "dental", minimum_search_score=1000.0)) == []
    assert len(names(search(passages, "dental", minimum_search_score=0.0))) == 2


USERS = {
    "nobody": NOBODY,
    "a": User("oid-a", ("group-1",)),
    "b": User("oid-b", ("group-2",)),
    "of both groups": User("oid-c", ("group-1", "group-2")),
    "without an oid": User(None, ("group-1", "group-2")),
    "with the name of a group": User("group-1", ("oid-a",)),
    "who quotes": User("' OR 1=1 --", ('"]', "%")),
}
# The oids and the groups of a passage.
READERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "public": ((), ()),
    "for a": (("oid-a",), ()),
    "for b": (("oid-b",), ()),
    "for a and b": (("oid-a", "oid-b"), ()),
    "for 1": ((), ("group-1",)),
    "for 2": ((), ("group-2",)),
    "for 1 and 2": ((), ("group-1", "group-2")),
    "for a and 2": (("oid-a",), ("group-2",)),
    "for b and 1": (("oid-b",), ("group-1",)),
}


def may_see(user: User, name: str, by_oid: bool, by_group: bool) -> bool:
    """The expected rule: public, or matched by an enabled filter."""
    oids, groups = READERS[name]
    matched = (by_oid and user.oid in oids) or (by_group and bool({*user.groups} & {*groups}))
    return not (oids or groups) or (user.oid is not None and matched)


def count_steps(passages: Iterable[Source], query: str, user: User) -> int:
    """The number of steps of SQLite's virtual machine for a search, in hundreds."""
    index, steps = build_in_memory(passages, IndexMeta()), 0

    def count() -> None:
        nonlocal steps
        steps += 1

    (connection,) = index.idle_connections
    connection.set_progress_handler(count, 100)
    overrides = Overrides(use_groups_security_filter=True)
    assert text_search(index, SearchQuery(user, query, overrides))
    connection.close()
    return steps


def test_the_cost_of_a_search_does_not_depend_on_how_much_the_user_may_see() -> None:
    groups = tuple(f"group-{n}" for n in range(50))
    many = [passage("Vision.", f"{n}.md", groups=(groups[n % 50],)) for n in range(5000)]
    few = [passage(f"Dental {n}.", f"of {n}.md", groups=(groups[n],)) for n in range(50)]
    own = [replace(each, groups=groups[:1]) for each in few]
    in_many, in_one = User("anna", groups), User("bob", groups[:1])

    assert count_steps([*many, *few], "dental", in_many) < 2 * count_steps(own, "dental", in_one)


DENTAL = [passage(f"Dental {name}.", name) for name in ("care", "crowns", "implants")]


def search_dental(error: ChatError, **overrides: Any) -> SearchResult:
    """Search an index with vectors while its embedding model fails."""

    async def fail(texts: Sequence[str]) -> list[list[float]]:
        raise error

    with closing(index_with_equal_vectors(*DENTAL, embed=fail)) as index:
        return asyncio.run(index.search(NOBODY, "dental crowns", Overrides(**overrides)))


@pytest.mark.parametrize("error", [TooManyRequests, Unavailable, DeadlineExceeded])
@pytest.mark.parametrize("overrides", [{}, {"retrieval_mode": "hybrid", "minimum_search_score": 0}])
def test_hybrid_search_goes_on_by_words(
    error: type[ChatError], overrides: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    result = search_dental(error(cause="m: status"), **overrides, vector_fields=["embedding"])
    by_text = search_dental(error(), **{**overrides, "retrieval_mode": "text"})
    (record,) = caplog.records

    assert replace(result, notes=()) == by_text
    assert result.relevance is None
    assert result.notes == (
        "retrieval_mode hybrid was left out: the embedding model is busy or not available at the "
        "moment; text was used.",
    )
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        f"search: by words alone, the embedding model failed: {error.__name__}: m: status"
    )


def test_missing_field_has_a_note_also_while_the_embedding_model_fails() -> None:
    _, note = search_dental(Unavailable(), vector_fields=["embedding", "foo"]).notes

    assert note == "vector_fields was left out: this index has no field foo."


@pytest.mark.parametrize(
    ("error", "mode"),
    [
        (TooManyRequests, "vectors"),
        (Unavailable, "vectors"),
        (DeadlineExceeded, "vectors"),
        (Misconfigured, None),
        (Misconfigured, "hybrid"),
        (BadRequest, "hybrid"),
    ],
)
def test_search_fails_with_its_embedding_model(error: type[ChatError], mode: str | None) -> None:
    with pytest.raises(error):
        search_dental(error(), retrieval_mode=mode)


@pytest.mark.parametrize("category", [None, "care"])
@pytest.mark.parametrize("mode", ["text", "vectors", "hybrid"])
@pytest.mark.parametrize("who", USERS)
@pytest.mark.parametrize(("by_oid", "by_group"), [*product([None, False, True], repeat=2)])
def test_a_user_sees_public_passages_and_those_that_an_enabled_filter_matches(
    who: str, by_oid: bool | None, by_group: bool | None, mode: str, category: str | None
) -> None:
    passages = [
        replace(passage(f"Dental {name}.", name, "care"), oids=oids, groups=groups)
        for name, (oids, groups) in READERS.items()
    ]
    passages.append(passage("Dental.", "of no category"))
    options: dict[str, Any] = {
        "use_oid_security_filter": by_oid,
        "use_groups_security_filter": by_group,
        "retrieval_mode": mode,
        "include_category": category,
    }
    user = USERS[who]
    with closing(index_with_equal_vectors(*passages)) as index:
        result = asyncio.run(index.search(user, "dental", Overrides(top=50, **options)))
    expected = [name for name in READERS if may_see(user, name, bool(by_oid), bool(by_group))]

    assert sorted(names(result)) == sorted([*expected, *["of no category"] * (category is None)])


def test_a_result_has_every_field_of_the_indexed_passage() -> None:
    source = Source("1", "A > B\n\nText.", "a.md#page=1", "a.md", "plans", ("o",), ("g", "h"))
    source = replace(source, heading="A > B")
    user = User("o")
    result = search([source], "text", user, use_oid_security_filter=True).sources[0]

    assert replace(result, score=None) == source


def test_the_props_report_the_options_that_were_used() -> None:
    plain = search([passage("Dental.")], "dental", top=3, retrieval_mode="hybrid")
    filtered = search(
        [passage("Dental.")], "dental", top=5, include_category="x", minimum_search_score=0
    )

    assert plain.props == {
        "has_vector": False,
        "use_semantic_captions": False,
        "retrieval_mode": "text",
        "top": 3,
    }
    assert filtered.props == {
        **plain.props,
        "top": 5,
        "include_category": "x",
        "minimum_search_score": 0,
    }


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, []),
        ({"retrieval_mode": "text", "vector_fields": ["embedding"]}, []),
        ({"semantic_ranker": False, "use_gpt4v": False, "gpt4v_input": "text"}, []),
        ({"retrieval_mode": "hybrid"}, ["retrieval_mode"]),
        ({"retrieval_mode": "vectors"}, ["retrieval_mode"]),
        ({"vector_fields": ["embedding"]}, ["vector_fields"]),
        ({"semantic_ranker": True}, ["semantic_ranker"]),
        ({"semantic_captions": True}, ["semantic_captions"]),
        ({"minimum_reranker_score": 0.0}, ["minimum_reranker_score"]),
        ({"use_gpt4v": True}, ["use_gpt4v"]),
        ({"use_gpt4v": True, "gpt4v_input": "images"}, ["use_gpt4v", "gpt4v_input"]),
    ],
)
def test_unavailable_options_have_a_note(overrides: dict[str, Any], expected: list[str]) -> None:
    notes = search([passage("Dental.")], "dental", **overrides).notes

    assert [note.split()[0] for note in notes] == expected
    assert all(note.endswith(".") for note in notes)


def test_concurrent_searches_are_independent() -> None:
    async def search_all(index: SqliteRetriever) -> list[SearchResult]:
        searches = (index.search(NOBODY, f"word{number}", Overrides()) for number in range(50))
        return await asyncio.gather(*searches)

    with closing(SqliteRetriever(passage(f"word{n}", f"{n}") for n in range(50))) as index:
        results = asyncio.run(search_all(index))

    assert [names(result) for result in results] == [[str(number)] for number in range(50)]


def test_a_closed_index_is_unavailable() -> None:
    index = SqliteRetriever([])
    index.close()

    with pytest.raises(Unavailable):
        asyncio.run(index.search(NOBODY, "dental", Overrides()))


def test_passages_are_read_from_json_lines_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    row = {"id": "1", "content": "c", "sourcepage": "a.md#page=1", "sourcefile": "a.md"}
    full = {**row, "category": "", "oids": ["o"], "groups": ["g"]}
    path = tmp_path / "passages.jsonl"
    path.write_text(f"{json.dumps(row)}\n\n{json.dumps(full)}\n", "utf-8")
    first, second = read_passages(path)

    assert first == Source("1", "c", "a.md#page=1", "a.md")
    assert second == Source("1", "c", "a.md#page=1", "a.md", None, ("o",), ("g",))


def test_the_sample_index_is_built_in_10_seconds() -> None:
    start = perf_counter()
    with closing(SqliteRetriever(read_passages(SAMPLES))):
        seconds = perf_counter() - start
    print(f"the samples were ready in {seconds:.3f} s")

    assert seconds < 10
