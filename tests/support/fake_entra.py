"""A strict fake of Entra ID's on-behalf-of flow, and the tokens that users send."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jwt

from tests.support.upstream import RecordedRequest, Server, Step, error_response, json_response

TENANT = "7c1f2b4e-5f0f-4b0e-9c55-1d2f2c9f1a11"
CLIENT = "c0ffee00-0000-4000-8000-000000000001"
KEY = "k" * 32
FORM = {
    "assertion",
    "client_assertion",
    "client_assertion_type",
    "client_id",
    "client_info",
    "grant_type",
    "requested_token_use",
    "scope",
}
BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def user_token(oid: str, **claims: Any) -> str:
    """The token that a client sends for a user of the app."""
    own = {"oid": oid, "tid": TENANT, "aud": CLIENT, "exp": int(time.time()) + 3600}
    return jwt.encode(own | claims, KEY, "HS256")


def search_token(oid: str) -> str:
    """The token by which the search service knows a user."""
    return f"search-token-of-{oid}"


def refusal(status: int, code: str, number: int = 0, **more: Any) -> list[Step]:
    """An error as Entra ID writes it."""
    body = {"error": code, "error_description": "AADSTS: anna@x", "error_codes": [number], **more}
    return json_response(body, status)


@dataclass
class FakeEntra(Server):
    """Exchanges tokens of users. `lifetime` is that of its own tokens, in seconds."""

    lifetime: int = 3600

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        form = request.body
        if request.path != f"/{TENANT}/oauth2/v2.0/token" or not isinstance(form, dict):
            return error_response(404)
        is_valid = (
            form.keys() == FORM
            and form["client_id"] == CLIENT
            and form["client_assertion"] == "token-of-az"
            and form["client_assertion_type"] == BEARER
            and form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
            and form["requested_token_use"] == "on_behalf_of"
            and form["scope"].split() == ["https://search.azure.com/.default"]
        )
        if not is_valid:
            return refusal(400, "invalid_request", 90014)
        try:
            jwt.decode(form["assertion"], KEY, ["HS256"], audience=CLIENT)
        except jwt.PyJWTError:
            return refusal(400, "invalid_grant", 50013)
        return None

    def respond(self, request: RecordedRequest) -> list[Step]:
        claims = jwt.decode(request.body["assertion"], options={"verify_signature": False})
        token = {"token_type": "Bearer", "expires_in": self.lifetime}
        return json_response({**token, "access_token": search_token(claims["oid"])})
