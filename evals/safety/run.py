"""Sends the attacks to the apps, and checks what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
from httpx_retries import RetryTransport
from pydantic import BaseModel, ConfigDict

from evals.safety.attacks import Attack, Request
from evals.safety.deployments import USERS, Deployment
from evals.safety.expectations import check, check_control, check_same, excerpt
from evals.safety.responses import Response
from evals.target import RETRY, TIMEOUT
from shared.domain.errors import FILTERED_MESSAGE

Send = Callable[[Request], Response]
ID_PLACEHOLDER = "$ID"
ATTACKS_AT_ONCE = 4
NO_MODEL = "only a language model can fall for it, and none is configured"


class Outcome(BaseModel):
    """What became of an attack: what the app did not do as promised, or why it did not run."""

    model_config = ConfigDict(frozen=True)

    id: str
    kind: str
    failures: tuple[str, ...] = ()
    skip_reason: str | None = None


def run_attacks(deployment: Deployment, attacks: Sequence[Attack]) -> Iterator[Outcome]:
    """Run the attacks, some at the same time; yield the outcomes in their order."""
    transport = RetryTransport(httpx.HTTPTransport(), RETRY)
    with (
        httpx.Client(transport=transport, timeout=TIMEOUT) as client,
        ThreadPoolExecutor(ATTACKS_AT_ONCE) as pool,
    ):
        yield from pool.map(partial(run_attack, client, deployment), attacks)


def run_attack(client: httpx.Client, deployment: Deployment, attack: Attack) -> Outcome:
    """Run an attack. Whatever goes wrong is a failure."""
    if attack.needs_model and not deployment.model_name:
        return Outcome(id=attack.id, kind=attack.kind, skip_reason=NO_MODEL)

    def send(request: Request) -> Response:
        return send_request(client, deployment.url(request.app, attack.needs_model), request)

    try:
        failures = tuple(_find_failures(send, attack))
    except httpx.HTTPError as error:
        failures = (f"expected a response, got {type(error).__name__}: {error}",)
    return Outcome(id=attack.id, kind=attack.kind, failures=failures)


def _find_failures(send: Send, attack: Attack) -> Iterator[str]:
    id = ""
    for request in attack.before:
        response = send(_insert_id(request, id))
        id = _read_id(response, request.save_id) if request.save_id else id
        if not httpx.codes.is_success(response.status) or (request.save_id and not id):
            got = f"status {response.status}: {excerpt(response.text)}"
            yield f"the attack could not be prepared by {request.path}: {got}"
            return
    response = send(_insert_id(attack.request, id))
    if attack.needs_model and response.status == 400 and FILTERED_MESSAGE in response.text:
        return  # the model's own filter has recognized the attack
    yield from check(attack.expect, response)
    if attack.same_as:
        yield from check_same(response, send(_insert_id(attack.same_as, id)))
    if attack.control:
        yield from check_control(attack, send(_insert_id(attack.control, id)))


def _insert_id(request: Request, id: str) -> Request:
    return Request.model_validate_json(request.model_dump_json().replace(ID_PLACEHOLDER, id))


def _read_id(response: Response, path: str) -> str:
    """Return the text at the keys of a path, such as `sessionState.conversation_id`, or nothing."""
    value = response.documents[0] if response.documents else None
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def send_request(client: httpx.Client, url: str, request: Request) -> Response:
    """Send a request with its path as it is. Raises httpx.HTTPError."""
    headers = dict(USERS[request.user].headers) if request.user else {}
    content = _format_body(request)
    if content is not None:
        headers["Content-Type"] = "application/json"
    message = client.build_request(
        request.method,
        url,
        content=content,
        headers={**headers, **request.headers},
        extensions={"target": request.path.encode()},
    )
    response = client.send(message)
    return Response(response.status_code, dict(response.headers), response.text)


def _format_body(request: Request) -> bytes | None:
    if request.text is not None:
        return request.text.encode() * request.times
    body = request.body
    if request.question is not None:
        turns = [turn.model_dump() for turn in request.history]
        body = {
            "messages": [*turns, {"role": "user", "content": request.question}],
            "context": {"overrides": dict(request.overrides)},
        }
    return None if body is None else json.dumps(body).encode()
