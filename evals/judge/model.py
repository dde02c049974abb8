"""The language model that judges, reached by the app's own settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from evals.errors import EvaluationError
from evals.json_replies import InvalidReply, describe, request_reply
from evals.judge.verdicts import Request, Verdict
from shared.bootstrap.clients import Clients
from shared.bootstrap.models import make_chat_model
from shared.domain.errors import ChatError
from shared.models.base import Model
from shared.settings import SettingsError, read_settings

SECONDS = "600"  # for a request with its retries, and to the first token
UNUSABLE = "The judge {name} cannot be used: {problem}."
NO_ENDPOINT = (
    "set OPENAI_BASE_URL (and OPENAI_API_KEY) or AZURE_OPENAI_ENDPOINT in local.settings.json or "
    "in the environment"
)


class JudgeError(EvaluationError):
    """The judge cannot be used; the message says why."""


class NoVerdict(Exception):
    """The judge has given no valid verdict; the message says why."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that judges."""

    model: Model
    endpoint: str  # tells it from models of the same name

    async def ask(self, request: Request) -> Verdict:
        """Send a request; return the verdict of the response. Raises NoVerdict."""
        messages, kind = request.messages, request.kind
        try:
            return await request_reply(self.model, messages, kind, request.context)
        except InvalidReply as error:
            raise NoVerdict(str(error)) from None
        except ChatError as error:
            raise NoVerdict(describe(error)) from None


@asynccontextmanager
async def open_judge(environment: Mapping[str, str], name: str) -> AsyncIterator[Judge]:
    """Open the model or deployment `name` at the endpoint of the app's settings.

    Raises JudgeError.
    """
    try:
        settings = read_settings(_judge_environment(environment, name))
    except SettingsError as error:
        raise JudgeError(UNUSABLE.format(name=name, problem=error)) from None
    endpoint = settings.azure_openai_endpoint or settings.openai_base_url
    if endpoint is None:
        raise JudgeError(UNUSABLE.format(name=name, problem=NO_ENDPOINT))
    clients = Clients(settings, batch=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        model = make_chat_model(clients)
        assert model is not None  # there is an endpoint
        try:
            await model.ready()
        except ChatError as error:
            raise JudgeError(UNUSABLE.format(name=name, problem=describe(error))) from None
        yield Judge(model, endpoint)


def _judge_environment(environment: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the app's settings with the judge in place of its model.

    As in the app, Azure OpenAI's endpoint takes precedence. Nobody waits for the judge, so it has
    more time. Whether it is a reasoning model, which takes no temperature, its name says.
    """
    azure = environment.get("AZURE_OPENAI_ENDPOINT", "").strip()
    names = ("AZURE_OPENAI_CHAT_DEPLOYMENT", "OPENAI_CHAT_MODEL")
    own_name = environment.get(names[0] if azure else names[1], "").strip()
    base_url = "" if azure else environment.get("OPENAI_BASE_URL", "").strip()
    return {
        **environment,
        "CHAT_MODEL": "",
        "MODEL_PROVIDERS": "",
        "AZURE_OPENAI_CHAT_DEPLOYMENT": name if azure else "",
        "OPENAI_BASE_URL": base_url,
        "OPENAI_CHAT_MODEL": name if base_url else "",
        "CHAT_MODEL_REASONING": environment.get("CHAT_MODEL_REASONING", "")
        if name == own_name
        else "",
        "MAX_ANSWER_TOKENS": "",
        "MODEL_ACCEPT_SECONDS": SECONDS,
        "MODEL_FIRST_TOKEN_SECONDS": SECONDS,
    }
