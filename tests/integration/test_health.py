"""Health checks: their results in `/health`, and their frequency."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.domain import errors
from shared.protocols.exchange import App
from shared.protocols.health import Health, HealthCheck
from shared.settings import SHARED_FOLDER
from shared.settings import read_settings as read_settings
from tests.support.calls import BufferedReply, call, read
from tests.support.fakes import FAKE_INDEX
from tests.support.index_files import build_index
from tests.support.servers import LAPTOP, SAMPLES
from tests.support.upstream import Exchange, Step, Upstream, error_response, run_upstream

SAMPLE_PASSAGES = SHARED_FOLDER / "data" / "samples.jsonl"
GET = replace(call("/health"), method="GET")
OK = {"status": "ok", "model": "m", "index": "fake"}


class FakeComponent:
    """A component with given failures that counts its checks."""

    def __init__(self, *failures: Exception | None) -> None:
        self.failures, self.times = list(failures), 0

    async def ready(self) -> None:
        self.times += 1
        await asyncio.sleep(0)
        failure = self.failures.pop(0) if self.failures else None
        if failure:
            raise failure


def make_health(part: FakeComponent, cache_seconds: float) -> Health:
    return Health({"index": HealthCheck("mine", part.ready)}, cache_seconds)


def checked_by(health: Health) -> App:
    return App(configs=(health,))


def get_health(service: App, times: int = 1, method: str = "GET") -> list[BufferedReply]:
    async def go() -> list[BufferedReply]:
        asking = (handle_call(service, replace(GET, method=method)) for _ in range(times))
        return [await read(reply) for reply in await asyncio.gather(*asking)]

    return asyncio.run(go())


@pytest.fixture
def server() -> Iterator[Upstream]:
    with run_upstream() as running:
        yield running


def test_concurrent_requests_share_one_check() -> None:
    part = FakeComponent()
    answers = get_health(checked_by(make_health(part, 60)), times=20)

    assert {response.data for response in answers} == {b'{"status":"ok","index":"mine"}'}
    assert part.times == 1


def test_expired_result_is_checked_again() -> None:
    service = App(
        configs=(make_health(FakeComponent(errors.Unavailable(), None), cache_seconds=0),)
    )
    first, second = get_health(service), get_health(service)

    assert first[0].json["status"] == "degraded"
    assert second[0].json == {"status": "ok", "index": "mine"}


def test_head_runs_no_check() -> None:
    part = FakeComponent(errors.Unavailable())
    (response,) = get_health(checked_by(make_health(part, 60)), method="HEAD")

    assert (response.status, response.data, part.times) == (200, b"", 0)


def test_exception_message_of_a_check_is_hidden() -> None:
    (response,) = get_health(checked_by(make_health(FakeComponent(RuntimeError("a secret")), 60)))

    assert response.json["failing"] == {"index": errors.UNEXPECTED_MESSAGE}


def test_laptop_is_told_what_the_index_holds() -> None:
    rows = [json.loads(line) for line in SAMPLE_PASSAGES.read_text("utf-8").splitlines()]
    holds = {
        "name": "samples",
        "documents": len({row["sourcefile"] for row in rows}),
        "passages": len(rows),
        "search": "words",
    }

    def details(**settings: str) -> Any:
        service = build(read_settings({**SAMPLES, "CHAT_MODEL": "demo", **settings}))
        return get_health(service)[0].json.get("details")

    assert details(**LAPTOP) == {"index": holds}
    assert details() is None
    assert details(**LAPTOP, WEBSITE_SITE_NAME="chat") is None


@pytest.mark.part("feedback-copies")
@pytest.mark.part("memory-file")
def test_copies_of_answers_are_checked_where_they_are_kept(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    foreign.write_bytes(b"something else")

    def health(file: Path, **more: str) -> Any:
        settings = {**LAPTOP, **SAMPLES, "CHAT_MODEL": "demo", "MEMORY_FILE": str(file)}
        return get_health(build(read_settings({**settings, **more})))[0].json

    assert "copies" not in health(tmp_path / "memory.db")
    on = health(tmp_path / "memory.db", FEEDBACK_COPIES="on")
    assert (on["status"], on["copies"]) == ("ok", "SQLite")
    failing = health(foreign, FEEDBACK_COPIES="on")["failing"]
    assert failing.keys() == {"memory", "copies"}
    assert failing["copies"].startswith("MEMORY_FILE cannot take copies of answers: ")


EMPTY = "The index has no passages: fill it, for example by `make index DOCS=folder`."
DAMAGED = "INDEX_FILE: the file is damaged. Rebuild it with `make index DOCS=folder`."
MISSING = "INDEX_FILE: No such file or directory. Rebuild it with `make index DOCS=folder`."


@pytest.mark.parametrize("place", [LAPTOP, {}])
def test_index_that_cannot_answer_is_degraded_with_what_helps(
    place: dict[str, str], tmp_path: Path
) -> None:
    file = build_index(tmp_path / "index.db")
    settings = {**place, "INDEX_FILE": str(file), "CHAT_MODEL": "demo"}

    def health() -> Any:
        service = build(read_settings(settings))
        if not file.stat().st_size:
            file.unlink()
        return get_health(service)[0].json

    empty = health()
    file.write_bytes(file.read_bytes()[:5000])
    damaged = health()
    file.write_bytes(b"")
    missing = health()

    assert [each["status"] for each in (empty, damaged, missing)] == ["degraded"] * 3
    failing = [each["failing"]["index"] for each in (empty, damaged, missing)]
    assert failing == [EMPTY, DAMAGED, MISSING]
    assert not any("details" in each for each in (empty, damaged, missing))


def check_model(server: Upstream, *plan: list[Step], **more: str) -> BufferedReply:
    server.plan += plan * 2  # a GET on a dropped connection is retried
    model = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_CHAT_MODEL": "m"}
    settings = {**FAKE_INDEX, **model, **more}

    async def go() -> BufferedReply:
        service = build(read_settings(settings))
        assert service.rag is not None
        try:
            return await read(await handle_call(service, GET))
        finally:
            await service.rag.model.client.close()  # type: ignore[attr-defined]

    return asyncio.run(go())


def test_model_check_lists_models(server: Upstream) -> None:
    assert check_model(server).json == OK
    assert [each.path for each in server.requests] == ["/v1/models"]


def test_model_check_passes_without_a_models_route(server: Upstream) -> None:
    assert check_model(server, error_response(404)).json == OK


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (error_response(401), errors.Misconfigured.default),
        (error_response(429), errors.TooManyRequests.default),
        (error_response(500), errors.Unavailable.default),
        ([Exchange.reset], errors.Unavailable.default),
        ([Exchange.stall], "It does not answer in time."),
    ],
    ids=["wrong key", "429", "500", "reset", "stall"],
)
def test_failing_model_is_reported(server: Upstream, plan: list[Step], sentence: str) -> None:
    response = check_model(server, plan)

    assert response.status == 200
    assert response.json == {**OK, "status": "degraded", "failing": {"model": sentence}}


def test_laptop_is_told_the_cause(server: Upstream) -> None:
    response = check_model(server, [Exchange.reset], **LAPTOP)

    cause = "m: connection closed before an answer"
    assert response.json["failing"] == {"model": f"{errors.Unavailable.default} ({cause})"}


def test_embedding_model_is_checked(server: Upstream) -> None:
    response = check_model(server, *[error_response(401)] * 2, OPENAI_EMBEDDING_MODEL="e")

    assert response.json["vectors"] == "e"
    assert response.json["failing"] == dict.fromkeys(
        ("model", "vectors"), errors.Misconfigured.default
    )
