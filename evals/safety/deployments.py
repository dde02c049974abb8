"""The apps under attack: their settings, documents and users."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import BaseModel, ValidationError

from evals.app import AppError, run_app
from evals.records import ROOT
from shared.settings import Settings

DOCUMENTS = Path(__file__).with_name("documents")
DEMO_MODEL = "demo"
# The settings that choose the model of the attacks that need one. All others are those of this
# file, so that an attack means the same in each project.
MODEL_SETTINGS = frozenset(
    "CHAT_MODEL AZURE_OPENAI_ENDPOINT AZURE_OPENAI_CHAT_DEPLOYMENT OPENAI_BASE_URL "
    "OPENAI_CHAT_MODEL OPENAI_API_KEY AZURE_CLIENT_ID IDENTITY_ENDPOINT CHAT_MODEL_API "
    "CHAT_MODEL_REASONING CHAT_MODEL_VISION REASONING_EFFORT MAX_PROMPT_TOKENS MAX_ANSWER_TOKENS "
    "MODEL_ACCEPT_SECONDS MODEL_FIRST_TOKEN_SECONDS MODEL_GAP_SECONDS MODEL_PROVIDERS "
    "HYBRID_POLICY LOCAL_FIRST_TOKEN_SECONDS".split()
)
NO_SETTINGS = {name.upper(): "" for name in Settings.model_fields}
# An attack is a caller of a proxy that checks the sign-in and sets the headers.
SIGN_IN = {"WEBSITE_AUTH_ENABLED": "true", "TRUST_SIGN_IN_HEADERS": "true", "THOUGHTS": "off"}


@dataclass(frozen=True, slots=True)
class User:
    """A signed-in user, by the ids of Entra ID."""

    oid: str
    groups: tuple[str, ...] = ()

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the platform's sign-in sends."""
        claims = [{"typ": "groups", "val": group} for group in self.groups]
        principal = base64.b64encode(json.dumps({"claims": claims}).encode()).decode()
        return {"X-MS-CLIENT-PRINCIPAL-ID": self.oid, "X-MS-CLIENT-PRINCIPAL": principal}


# Anna may see every document (documents/acl.yaml), Bert the public ones.
USERS: Mapping[str, User] = {
    "anna": User("11111111-1111-1111-1111-111111111111", ("99999999-9999-9999-9999-999999999999",)),
    "bert": User("22222222-2222-2222-2222-222222222222"),
}


@dataclass(frozen=True, slots=True)
class Deployment:
    """The addresses of the apps."""

    sign_in: str  # with sign-in
    open: str  # without sign-in
    model: str  # with sign-in and a language model; the demo model if none is configured
    model_name: str = ""  # empty if no language model is configured

    def url(self, app: str, needs_model: bool) -> str:
        """Return the address of the app for a request of an attack."""
        if app == "open":
            return self.open
        return self.model if needs_model else self.sign_in


class _Health(BaseModel):
    model: str


@contextmanager
def run_deployment(
    folder: Path, documents: Path = DOCUMENTS, settings: Mapping[str, str] | None = None
) -> Iterator[Deployment]:
    """Index the documents into `folder`, and run the apps until the block ends. Raises AppError.

    `settings` have precedence over those of the app with sign-in.
    """
    common = {
        **NO_SETTINGS,
        "INDEX_FILE": str(folder / "index.db"),
        "DOCUMENTS_PATH": str(documents),
    }
    _index(documents, common)
    sign_in = {**common, **SIGN_IN, "MEMORY_FILE": str(folder / "memory.db"), **(settings or {})}
    model = {name: value for name, value in sign_in.items() if name not in MODEL_SETTINGS}
    with ExitStack() as stack:
        urls = [stack.enter_context(run_app(each)) for each in (sign_in, common, model)]
        name = _read_model_name(urls[-1])
        yield Deployment(urls[0], urls[1], urls[2], "" if name == DEMO_MODEL else name)


def _index(documents: Path, settings: Mapping[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ingest", str(documents)],
        cwd=ROOT,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise AppError(f"the documents were not indexed:\n{done.stdout}{done.stderr}")


def _read_model_name(url: str) -> str:
    response = httpx.get(f"{url}/health", timeout=60, trust_env=False)
    try:
        return _Health.model_validate_json(response.content).model
    except ValidationError:
        raise AppError(f"the app with your model does not run: {response.text}") from None
