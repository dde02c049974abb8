"""The door for OpenAI's clients: its routes, who may come in, and the models that there are."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from shared.chat.errors import NoSuchModel, Unauthorized
from shared.chat.request import ChatRequest
from shared.http.auth import AccessPolicy
from shared.http.call import Call
from shared.http.json_encoding import Json
from shared.models.router import Router
from shared.protocols.openai import response as openai_chat
from shared.protocols.openai.search_scope import SearchScope

DEPLOYMENT = "/openai/deployments/{deployment}/chat/completions"
CHATS = ("/v1/chat/completions", "/openai/v1/chat/completions", DEPLOYMENT)
LISTS = ("/v1/models", "/openai/v1/models", "/openai/models")
ONES = ("/v1/models/{*id}", "/openai/v1/models/{*id}")  # a model's name may have a slash in it
# The methods of each route. What is in braces is in `Call.path`.
ROUTES: Mapping[str, str] = {
    **dict.fromkeys(CHATS, "POST"),
    **dict.fromkeys((*LISTS, *ONES), "GET, HEAD"),
}

LONGEST_NAME = 200  # characters of a model's
CLOSED = (
    "This needs the key of this app, as api-key or as Authorization: Bearer. Whoever runs it sets "
    "CHAT_API_KEY."
)


@dataclass(frozen=True, slots=True)
class OpenAIAccess:
    """Who may come in: its routes are open to the platform, since most of these clients send no
    header of the platform's.

    `open`: on a laptop, where neither a key nor a sign-in is set up, anyone may. `search` is what
    they may say of where to search.
    """

    key: str | None = None
    open: bool = True
    search: SearchScope = field(default_factory=SearchScope)

    def check(self, access: AccessPolicy, headers: Mapping[str, str]) -> None:
        """Raise Unauthorized for whoever may not come in."""
        if self.key is None and self.open and not access.sign_in:
            return
        if access.get_user(headers).is_signed_in or self._has_key(headers):
            return
        raise Unauthorized(CLOSED)

    def understood(self, call: Call, asked: ChatRequest) -> ChatRequest:
        """The request, with what its path and its data source say. Raises BadRequest,
        NoSuchModel."""
        return self.search.applied(_named(call, asked))

    def _has_key(self, headers: Mapping[str, str]) -> bool:
        bearer = headers.get("authorization", "")
        scheme, _, token = bearer.partition(" ")
        given = (headers.get("api-key", ""), token.strip() if scheme.lower() == "bearer" else "")
        # each in constant time, and always both
        return any([self.key is not None and _same(one, self.key) for one in given])


def _same(given: str, key: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), key.encode())


def _named(call: Call, asked: ChatRequest) -> ChatRequest:
    """The request, for the model in its path where there is one: that wins over the body's.

    Raises NoSuchModel for what is no name.
    """
    if call.route != DEPLOYMENT:
        return asked
    if not call.path.isprintable() or len(call.path) > LONGEST_NAME or not call.path:
        raise NoSuchModel("There is no model of that name.")
    overrides = asked.overrides.model_copy(update={"model": call.path})
    return replace(asked, overrides=overrides)


def told(call: Call, models: Router) -> Json:
    """The models, or one of them. Raises NoSuchModel."""
    there = dict(_models(models))
    if call.route in LISTS:
        return openai_chat.models(there.items())
    if call.path not in there:
        raise NoSuchModel(f"There is no model {call.path!r:.100}.")
    return openai_chat.model(call.path, there[call.path])


def _models(models: Router) -> Iterator[tuple[str, str]]:
    """Each model's name, and its provider's: the first that has it."""
    seen: set[str] = set()
    for provider in models.providers:
        for name in provider.models if provider.available else ():
            if name not in seen:
                seen.add(name)
                yield name, provider.name
