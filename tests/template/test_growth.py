"""The growth benchmark covers each list of each request, and finds what grows like the square."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import pytest
from pydantic import BaseModel, create_model

from bench.flow import Flow, open_flow
from bench.growth import write_table
from bench.requests import ENDPOINTS, PROTOCOLS, subclasses, uncovered_models, uncovered_routes
from bench.rows import FLOOR, MOST, Growth, Row, measure
from bench.schemas import places, schema_of
from shared.app import ROUTES
from shared.http.call import Reply
from shared.protocols.exchange import Exchange

NAMES = list(dict.fromkeys(each.name for each in ENDPOINTS))
MODELS = list(subclasses(BaseModel))


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    with open_flow() as opened:
        yield opened


async def read_list(_exchange: Exchange) -> Reply:
    raise NotImplementedError


class Part(BaseModel):
    names: list[str]


class Planted(BaseModel):
    title: str
    parts: dict[str, str] | list[Part] | None = None


def nested_in_any(kind: str) -> str:
    """Returns the path of a list, without the kinds of the entries that it is nested in."""
    *outer, last = kind.rpartition("[")
    return re.sub(r"\[[^]]+\]", "[]", outer[0]) + "[" + last


def is_without_lists(protocol: ModuleType) -> bool:
    """Whether a protocol reads bodies, none of which has a list."""
    endpoints = list(getattr(protocol, "list_endpoints", tuple)())
    return bool(endpoints) and not any(it.valid for each in endpoints for it in each.places())


def join(body: dict[str, list[dict[str, list[str]]]]) -> int:
    """Reads the names of the parts one by one, with a copy of those before."""
    names: tuple[str, ...] = ()
    for part in body.get("parts", ()):
        for name in part["names"] if isinstance(part, dict) else ():
            names += (name,)
    return len(names)


def test_each_route_that_reads_a_body_is_measured() -> None:
    assert uncovered_routes(ROUTES, ENDPOINTS) == set()


def test_new_route_that_reads_a_body_is_missed() -> None:
    new = replace(ROUTES["/feedback"], path="/new", methods=("GET", "POST"), handler=read_list)
    other = replace(ROUTES["/feedback"], methods=("POST", "PUT"))
    routes = {**ROUTES, "/new": new, "/feedback": other}

    assert uncovered_routes(routes, ENDPOINTS) == {"POST /new", "PUT /feedback"}


def test_each_model_of_a_request_is_measured() -> None:
    assert len(MODELS) > 4 * len(PROTOCOLS)
    assert uncovered_models(MODELS, ENDPOINTS) == set()


def test_new_model_of_a_request_is_missed() -> None:
    new = create_model("New", __module__="shared.protocols.new", names=(list[str], ...))

    assert uncovered_models([new, Planted], ENDPOINTS) == {new}


def test_each_list_of_a_request_is_accepted_with_one_entry(flow: Flow) -> None:
    statuses = defaultdict[str, set[object]](set)
    for row in flow.rows():
        if row.valid:  # of the kinds of an entry, one is enough: an assistant has no files
            place = re.sub(r"\[[^]]+\]", "[]", row.kind)
            statuses[f"{row.name} {place}"].add(row.read(row.make(1)))

    assert len(statuses) > 5 * sum(not is_without_lists(each) for each in PROTOCOLS)
    assert [place for place, seen in statuses.items() if not seen & {200, 204}] == []


def test_each_list_of_a_schema_becomes_longer() -> None:
    bodies = {place.path: place.make(2) for place in places(schema_of(Planted)) if place.valid}
    texts = ["a000000", "a000001"]

    assert bodies == {
        ".parts{}": {
            "title": texts[0],
            "parts": dict.fromkeys(("key000000", "key000001"), texts[0]),
        },
        ".parts[]": {"title": texts[0], "parts": [{"names": []}, {"names": []}]},
        ".parts[].names[]": {"title": texts[0], "parts": [{"names": texts}]},
    }


def test_planted_square_in_a_list_of_a_list_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    planted = (place for place in places(schema_of(Planted)) if place.valid)
    squares = write_table(Row("planted", each.path, each.make, join, 24_000) for each in planted)

    assert squares == ["planted .parts[].names[]"]
    assert re.search(r"^planted +\.parts\[\] +24000( +[\d.]+){6} ", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_time_of_a_request_does_not_grow_with_the_square_of_a_list(flow: Flow, name: str) -> None:
    rows = {nested_in_any(row.kind): row for row in flow.rows() if row.name == name}
    first = {kind: measure(row, 2, step=2, tries=1) for kind, row in rows.items()}
    again = {kind: measure(rows[kind], 2) for kind, growth in first.items() if growth.is_square}

    assert 413 not in {growth.result for growth in first.values()}
    assert {kind: growth.times for kind, growth in again.items() if growth.is_square} == {}


@pytest.mark.parametrize(
    ("times", "exponent"),
    [
        ([1, 4, 16, 64, 256, 1024], 2),
        ([10, 20, 40, 80, 160, 320], 1),
        ([FLOOR / 16, FLOOR / 4, FLOOR], 2),
        ([0.01, 0.1, 1, 4, FLOOR - 1], 0),
        ([6000], float("inf")),
    ],
)
def test_exponent_is_that_of_the_last_doublings(times: list[float], exponent: float) -> None:
    growth = Growth(times)

    assert growth.exponent == pytest.approx(exponent)
    assert growth.is_square == (exponent > MOST)
