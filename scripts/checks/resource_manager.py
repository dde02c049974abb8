"""Calls Azure Resource Manager as azd's user, without a library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from scripts.commands import CommandError, Limits, Program, find_program

PUBLIC_CLOUD = "https://management.azure.com/"
REQUEST_SECONDS = 30
MAX_BYTES = 50_000_000  # the models of a region are hundreds, with their limits
MAX_ERROR_BYTES = 100_000


class UnavailableError(Exception):
    """There is no token or no answer; the message says why."""


def send(
    environment: Mapping[str, str],
    method: str,
    path: str,
    api_version: str,
    *,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Return the JSON object of a response; None if there is no such resource.

    Raises UnavailableError.
    """
    url = (environment.get("AZURE_RESOURCE_MANAGER_URL") or PUBLIC_CLOUD).rstrip("/")
    request = Request(
        f"{url}{quote(path)}?api-version={api_version}",
        data=None if method == "GET" else json.dumps(body or {}).encode(),
        headers={
            "Authorization": f"Bearer {get_token(environment)}",
            "Content-Type": "application/json",
        },
        method=method,
    )
    try:
        with urlopen(request, timeout=REQUEST_SECONDS) as response:
            value: Any = json.loads(response.read(MAX_BYTES))
    except HTTPError as error:
        with error:
            if error.code == 404:
                return None
            raise UnavailableError(
                f"Resource Manager responds with {error.code}{read_message(error)}."
            ) from None
    except (OSError, HTTPException, ValueError) as error:
        raise UnavailableError(f"{error or type(error).__name__}.") from None
    return value if isinstance(value, dict) else {}


def read_message(error: HTTPError) -> str:
    """Return `: ` and what an error response says; nothing if it says nothing."""
    try:
        message = str(json.loads(error.read(MAX_ERROR_BYTES))["error"]["message"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return ""
    return f": {message.rstrip('.')}"


def get_token(environment: Mapping[str, str], scope: str = "") -> str:
    """Return a token of azd's user, by default for Resource Manager. Raises UnavailableError."""
    try:
        azd = Program("azd", find_program("azd", path=environment.get("PATH")), Limits())
        return str(json.loads(azd.try_run(*token_arguments(scope), quiet=True).output)["token"])
    except CommandError as error:
        raise UnavailableError(str(error)) from None
    except (ValueError, KeyError, TypeError):
        raise UnavailableError("`azd auth token` gives no token: azd auth login.") from None


def token_arguments(scope: str) -> list[str]:
    """Return the arguments by which azd prints a token."""
    return ["auth", "token", "--output", "json", *(["--scope", scope] if scope else [])]
