"""Serves the app without Azure Functions Core Tools: `python dev_server.py --port N`."""

import argparse
import base64
import json
import logging
import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.bootstrap.local_settings import (
    UsageError,
    read_environment,
    read_json,
    read_local_settings,
)
from shared.http.auth import CrossOriginPolicy

ROUTE_PARAMETER = re.compile(r"/\{(\w+)[^?}]*(\??)\}")  # /{id}, /{id:int?}; constraints are ignored
ROOT_ROUTE = re.compile(r"/\{\w+:maxlength\(0\)\?\}$")
CATCH_ALL_PARAMETER = re.compile(r"/\{\*(\w+)\}")  # /{*path}
PRINCIPAL_HEADERS = b"x-ms-client-principal"  # the beginning of their names
LOCAL_ORIGINS = r"http://(localhost|127\.0\.0\.1)(:\d+)?"  # any page on this machine
UNKNOWN_HOST = JSONResponse(
    {"error": "This server answers to localhost. Add other names to ALLOWED_HOSTS."}, 403
)
STARTED_MESSAGE = """\
Chat: POST {base}/chat, or {base}/chat/stream
Health: {base}/health
Docs: README.md; docs/protocols.md lists the protocols, test.http requests to try
Not imitated: function keys, platform sign-in, scaling, functionTimeout, other triggers."""


def split_list(text: str) -> list[str]:
    """Split a comma-separated list of origins or hosts, and normalize as browsers do."""
    return [part.strip().lower().rstrip("/") for part in text.split(",") if part.strip()]


class HostFilter:
    """Rejects requests with unknown host names (DNS rebinding to 127.0.0.1)."""

    def __init__(self, app: ASGIApp, hosts: list[str]) -> None:
        self.app, self.hosts = app, hosts
        names = ("CODESPACE_NAME", "GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN")
        self.policy = CrossOriginPolicy(frozenset(), *map(os.environ.get, names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or respond with 403."""
        host = Headers(scope=scope).get("host", "").lower() if scope["type"] == "http" else ""
        name = re.sub(r":\d+$", "", host).strip("[]")
        is_known = self.policy.is_local(name) or {name, host} & set(self.hosts)
        app = self.app if is_known or scope["type"] != "http" else UNKNOWN_HOST
        await app(scope, receive, send)


class SignedIn:
    """Adds the headers of the platform's sign-in for one person, and removes those of callers."""

    def __init__(self, app: ASGIApp, user: str, groups: list[str]) -> None:
        claims = [{"typ": "groups", "val": group} for group in groups]
        principal = base64.b64encode(json.dumps({"claims": claims}).encode())
        self.app = app
        self.headers = [
            (b"x-ms-client-principal-id", user.encode()),
            (b"x-ms-client-principal", principal),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as the person's."""
        own = [it for it in scope.get("headers", ()) if not it[0].startswith(PRINCIPAL_HEADERS)]
        await self.app({**scope, "headers": [*own, *self.headers]}, receive, send)


def make_route(func: Any, prefix: str) -> Route:
    """Make the route of an HTTP function; as in Azure, case and a final slash are ignored."""
    trigger = func.get_trigger()
    path = "/" + f"{prefix}/{trigger.route or func.get_function_name()}".strip("/")
    path = ROOT_ROUTE.sub("", path) or "/"
    template = CATCH_ALL_PARAMETER.sub(r"/{\1}", ROUTE_PARAMETER.sub(r"/{\1}", path))
    route = Route(template, func.get_user_function(), name=path)
    pattern = CATCH_ALL_PARAMETER.sub(
        r"(?:/(?P<\1>.*))?", ROUTE_PARAMETER.sub(r"(?:/(?P<\1>[^/]+))\2", path)
    )
    route.path_regex = re.compile(f"^{pattern}/?$", re.IGNORECASE)
    route.methods = {method.value for method in trigger.methods or ()} or None
    return route


def say_not_found(paths: Sequence[str], request: Request, _: Exception) -> Response:
    """Return the 404 for a path or a method that no route has, with the routes that exist."""
    routes = f"the routes: {', '.join(paths)}; docs/protocols.md explains them"
    has_prefix = request.url.path.lower().startswith("/api/")
    start = "Leave out /api. These are " if has_prefix else "There is no such route. These are "
    return PlainTextResponse(f"{start}{routes}.\n", 404, {"X-Content-Type-Options": "nosniff"})


def main(port: int, user: str = "", groups: str = "") -> None:
    """Serve the functions of the app until Ctrl+C.

    With a `user`, all calls are this person's, with these groups (separated by commas), as behind
    the platform's sign-in.
    """
    try:
        server = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        reason = "is in use" if "in use" in str(error) else "cannot be used"
        raise SystemExit(f"Port {port} {reason}: try `make run PORT={port % 60000 + 1}`.") from None
    # asyncio sets TCP_NODELAY, for small chunks, only on a socket that names its protocol.
    server = socket.socket(server.family, server.type, socket.IPPROTO_TCP, server.detach())
    try:
        os.environ |= read_environment(os.environ)
        cors = read_local_settings().get("Host", {}).get("CORS", "")
        functions_host = read_json(Path(__file__).with_name("host.json"))
    except UsageError as error:
        raise SystemExit(str(error)) from None
    os.environ.pop("CONTAINER_NAME", None)  # set in dev containers, too: this is not the platform
    os.environ["AZURE_FUNCTIONS_ENVIRONMENT"] = "Development"  # as Core Tools set it
    origins = split_list(f"{os.environ.get('ALLOWED_ORIGINS', '')},{cors}")
    os.environ["ALLOWED_ORIGINS"] = ",".join(origins)
    host = f"localhost:{server.getsockname()[1]}"
    os.environ["WEBSITE_HOSTNAME"] = host  # as Core Tools do
    if user:
        os.environ |= {"WEBSITE_AUTH_ENABLED": "True", "TRUST_SIGN_IN_HEADERS": "true"}
    from function_app import app  # imported here: it reads the environment

    http = functions_host.get("extensions", {}).get("http", {})
    prefix = http.get("routePrefix", "api")
    routes = [make_route(each, prefix) for each in app.get_functions() if each.is_http_function()]
    routes.sort(key=lambda route: re.findall(r"/(\{?\*?)", route.name))  # literals come first
    paths = sorted({route.path for route in routes if "{" not in route.path})
    not_found = partial(say_not_found, paths)  # for unknown routes and methods
    web = Starlette(routes=routes, exception_handlers=dict.fromkeys((404, 405), not_found))
    web.add_middleware(
        CORSMiddleware,
        origins,
        allow_origin_regex=LOCAL_ORIGINS,
        allow_methods=["*"],
        allow_headers=["*"],
    )
    if user:
        web.add_middleware(SignedIn, user, [it.strip() for it in groups.split(",") if it.strip()])
        print(f"Every call is by {user}, with the groups {groups or '(none)'}.", flush=True)
    web.add_middleware(HostFilter, split_list(os.environ.get("ALLOWED_HOSTS", "")))
    if "/" in paths:
        print(f"Page: http://{host}/")
    print(STARTED_MESSAGE.format(base=f"http://{host}"), flush=True)
    config = uvicorn.Config(
        web, ws="none", log_config=None, log_level="warning", timeout_graceful_shutdown=3
    )
    uvicorn.Server(config).run([server])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    noise = re.compile("^Cancel |CancelledE|^Unclosed")  # logged for requests that Ctrl+C ends
    logging.root.handlers[0].addFilter(lambda it: not noise.search(f"{it.msg}{it.exc_info}"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=7071)
    parser.add_argument("--as", dest="user", default="", help="the id of who calls, to try rules")
    parser.add_argument("--groups", default="", help="the ids of this person's groups, by commas")
    options = parser.parse_args()
    if options.groups and not options.user:
        parser.error("--groups needs --as")
    with suppress(KeyboardInterrupt):
        main(options.port, options.user, options.groups)
    print("Stopped.")
