"""The postdeploy hook of azd: asks the deployed app a question, and prints how to call it.

`azd deploy` succeeds with a package that the platform cannot load, and /health calls no model and
needs no sign-in. It needs no library.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from ssl import SSLCertVerificationError
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

Result = TypeVar("Result")
ROOT = Path(__file__).parent.parent.parent
MAX_BYTES = 100_000
WAITING = (
    "The app is not ready ({problem}). Checking again in {pause:.0f} s, for {left:.0f} s at most."
)
NO_ANSWER_YET = (
    "No answer yet ({problem}). Asking again in {pause:.0f} s, for {left:.0f} s at most."
)
DEGRADED = (
    "The app is deployed and runs, but cannot answer yet: {problem}. New roles can take 15 minutes "
    "to take effect; `make index` makes a missing index. `azd hooks run postdeploy` checks again."
)
FAILED = (
    "The app does not work: {problem}. If azd's output above says --platform-version 3.11, it was "
    "built for another Python: docs/troubleshooting.md has the steps for this, and more. "
    "`azd monitor --logs` shows the log; `azd hooks run postdeploy` checks again."
)
WORKS = (
    'The app works. It answered "{question}" as a stream, with the first words after '
    "{seconds:.1f} s:\n\n{answer}\n\n{access} Ask it yourself:"
)
REFUSES = "Without credentials it refuses, as it should."
OPEN_TO_ALL = "Anybody may ask it, and every question costs you money (AZURE_OPEN_TO_ALL)."
NOT_ASKED = (
    "The app runs, and /health says that its services answer. It was asked no question: {reason}"
)
NO_ANSWER = (
    "The app runs, but it does not answer a question: {problem}. See docs/troubleshooting.md, "
    "`azd monitor --logs`; `azd hooks run postdeploy` checks again."
)
NO_STREAM = (
    "The app answers POST /chat, but its streams are broken: {problem}. Until that is clear, let "
    'clients ask for whole answers (/chat; "stream": false in the other protocols). docs/limits.md '
    "has a report of this with sign-in on Flex Consumption; `azd monitor --logs` shows the error."
)
UNPROTECTED = (
    "The app accepts calls without credentials, although it needs {credentials}: every question "
    "costs you money. Stop it until you know why: az functionapp stop --name {name} "
    "--resource-group {group}"
)
NOT_CHECKED = (
    "The app is deployed, but was not checked. {reason} `azd hooks run postdeploy` checks it then."
)
PRIVATE = "The app answers in its virtual network alone, and this machine is not in it ({problem})."
NO_ADDRESS = "azd's environment has no SERVICE_API_URI: run `azd provision` first."
# By SERVICE_API_CALLERS: what a caller sends, and the commands that get it.
CREDENTIALS = {
    "keys": (
        'key=$(az functionapp keys list --name "$(azd env get-value SERVICE_API_NAME)" \\\n'
        '  --resource-group "$(azd env get-value AZURE_RESOURCE_GROUP)" '
        "--query functionKeys.default --output tsv)\n",
        ' -H "x-functions-key: $key"',
    ),
    "signed-in": (
        "token=$(az account get-access-token --query accessToken --output tsv \\\n"
        '  --scope "api://$(azd env get-value AZURE_AUTH_CLIENT_ID)/user_impersonation")\n',
        ' -H "Authorization: Bearer $token"',
    ),
    "anyone": ("", ""),
}


@dataclass(frozen=True)
class WaitPolicy:
    """The time limits of all checks and of one, and the pause between two, in seconds."""

    start_seconds: float = 900  # until the app runs, which needs new roles and Key Vault references
    # Until the services behind it answer, too; a deployment is correct without
    service_seconds: float = 300
    pause: float = 15
    request_seconds: float = 30  # the first request starts an instance
    answer_seconds: float = 150  # longer than the app gives a model (ANSWER_TIMEOUT_SECONDS)


def main(environment: Mapping[str, str] = os.environ, policy: WaitPolicy = WaitPolicy()) -> int:
    """Check until the app works or the time is over.

    Returns the exit status: 0 if the app runs, 1 if it does not, 130 after Ctrl+C.
    """
    sys.path.insert(0, str(ROOT))
    from scripts.certificates import untrusted_message

    address = environment.get("SERVICE_API_URI", "").rstrip("/")
    if not address:
        return fail(NO_ADDRESS)
    try:
        report = check_app(environment, address, policy)
    except URLError:
        return fail(NOT_CHECKED.format(reason=untrusted_message()))
    except UnusableError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return 130
    print_lines([report, "", first_call(environment, address)])
    return 0


def check_app(environment: Mapping[str, str], address: str, policy: WaitPolicy) -> str:
    """Return what the app does, for a terminal. Raises URLError and UnusableError."""
    from scripts.switches import expects_index, is_private_app

    if is_private_app(environment):
        health = check_health(address, policy.request_seconds)
        if not health.runs:
            return NOT_CHECKED.format(reason=PRIVATE.format(problem=health.problem))
    health = wait_until_healthy(address, policy, patient=expects_index(environment))
    if not health.runs:
        raise UnusableError(FAILED.format(problem=health.problem))
    if health.problem:
        return DEGRADED.format(problem=health.problem)
    return ask_question(environment, address, policy)


class UnusableError(Exception):
    """People cannot, or must not, use the app; the message says what to do."""


def ask_question(environment: Mapping[str, str], address: str, policy: WaitPolicy) -> str:
    """Return what the app answers to a question, for a terminal. Raises UnusableError."""
    from scripts.checks import first_question
    from scripts.checks.first_question import QuestionError
    from scripts.checks.resource_manager import UnavailableError

    callers = environment.get("SERVICE_API_CALLERS", "keys")
    try:
        if callers != "anyone" and retry(
            lambda: first_question.is_open(address, policy.request_seconds), policy
        ):
            raise UnusableError(describe_unprotected(environment, callers))
        headers = first_question.find_credentials(environment)
    except UnavailableError as error:
        return NOT_ASKED.format(reason=error)
    except QuestionError as error:
        raise UnusableError(NO_ANSWER.format(problem=error)) from None
    try:
        answer = retry(
            lambda: first_question.stream_answer(address, headers, policy.answer_seconds), policy
        )
    except QuestionError as error:
        try:
            first_question.complete_answer(address, headers, policy.answer_seconds)
        except QuestionError:
            raise UnusableError(NO_ANSWER.format(problem=error)) from None
        raise UnusableError(NO_STREAM.format(problem=error)) from None
    return WORKS.format(
        question=first_question.TEXT,
        seconds=answer.first_seconds,
        answer=answer.describe(),
        access=OPEN_TO_ALL if callers == "anyone" else REFUSES,
    )


def retry(ask: Callable[[], Result], policy: WaitPolicy) -> Result:
    """Ask until there is an answer, as long as roles and quota may be new. Raises QuestionError."""
    from scripts.checks.first_question import QuestionError

    deadline = time.monotonic() + policy.service_seconds
    while True:
        try:
            return ask()
        except QuestionError as error:
            remaining = deadline - time.monotonic()
            if not error.retryable or remaining < policy.pause:
                raise
            line = NO_ANSWER_YET.format(problem=error, pause=policy.pause, left=remaining)
        print_lines([line])
        time.sleep(policy.pause)


def describe_unprotected(environment: Mapping[str, str], callers: str) -> str:
    """Return the message about an app that lets anybody in."""
    return UNPROTECTED.format(
        credentials="a function key" if callers == "keys" else "sign-in",
        name=environment.get("SERVICE_API_NAME", "NAME"),
        group=environment.get("AZURE_RESOURCE_GROUP", "GROUP"),
    )


@dataclass(frozen=True)
class AppHealth:
    """What /health says: whether the app runs, and what is wrong, if anything."""

    runs: bool
    problem: str = ""


def wait_until_healthy(address: str, policy: WaitPolicy, patient: bool) -> AppHealth:
    """Return the health as soon as nothing is wrong, or when the time is over.

    `patient`: wait for the services behind an app that runs, too. Raises URLError.
    """
    start = time.monotonic()
    while True:
        health = check_health(address, policy.request_seconds)
        limit = policy.service_seconds if health.runs else policy.start_seconds
        remaining = start + limit - time.monotonic()
        if not health.problem or remaining < policy.pause or (health.runs and not patient):
            return health
        print_lines([WAITING.format(problem=health.problem, pause=policy.pause, left=remaining)])
        time.sleep(policy.pause)


def check_health(address: str, timeout: float) -> AppHealth:
    """Ask GET /health. Raises URLError if its certificate is not trusted."""
    try:
        with urlopen(f"{address}/health", timeout=timeout) as response:
            return describe(response.status, response.read(MAX_BYTES))
    except HTTPError as error:
        with error:
            return describe(error.code, error.read(MAX_BYTES))
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(getattr(error, "reason", None), SSLCertVerificationError):
            raise
        problem = f"no answer from {address}/health: {error or type(error).__name__}"
        return AppHealth(runs=False, problem=problem)


def describe(status: int, body: bytes) -> AppHealth:
    """Return what a response of /health says. Another one is not of the app."""
    try:
        health: Any = json.loads(body)
    except ValueError:
        health = None
    if not isinstance(health, dict) or not health.keys() & {"status", "settings"}:
        problem = f"{status} from /health, not from the app: it starts, or could not be loaded"
        return AppHealth(runs=False, problem=problem)
    if settings := health.get("settings"):
        problem = f"settings are wrong or missing: {'; '.join(map(str, settings))}"
        return AppHealth(runs=False, problem=problem)
    failing = health.get("failing") or {}
    problem = "; ".join(f"{part}: {message}" for part, message in failing.items())
    return AppHealth(runs=True, problem=problem)


def first_call(environment: Mapping[str, str], address: str) -> str:
    """Return the commands of a first question, for a shell."""
    from scripts.checks.first_question import BODY

    callers = environment.get("SERVICE_API_CALLERS", "keys")
    get_credential, header = CREDENTIALS.get(callers, CREDENTIALS["keys"])
    return (
        f"{get_credential}curl -N {address}/chat/stream{header} \\\n"
        f"  -H 'Content-Type: application/json' -d '{json.dumps(BODY)}'"
    )


def fail(message: str) -> int:
    """Print a message to stderr. Returns the exit status."""
    print(message, file=sys.stderr, flush=True)
    return 1


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, each at once."""
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
