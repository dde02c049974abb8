"""How is the app served without Azure Functions Core Tools? By `python dev_server.py --port N`."""

import argparse
import json
import logging
import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

ROUTE_PARAMETER = re.compile(
    r"/\{(\w+)[^?}]*(\??)\}"
)  # /{id}, /{id:int?}; its constraint is not checked
ROOT_ROUTE = re.compile(r"/\{\w+:maxlength\(0\)\?\}$")
CATCH_ALL_PARAMETER = re.compile(r"/\{\*(\w+)\}")  # /{*path}
UNKNOWN_HOST = JSONResponse(
    {"error": "This server answers to localhost. Add other names to ALLOWED_HOSTS."}, 403
)
NOTE = "Not imitated: function keys, platform sign-in, scaling, functionTimeout, other triggers."


def read_json_file(name: str) -> Any:
    """What a JSON file of this folder says; nothing where there is no such file."""
    path = Path(__file__).with_name(name)
    try:
        return json.loads(path.read_text("utf-8-sig")) if path.exists() else {}
    except ValueError as error:
        raise SystemExit(f"{name} is not valid JSON: {error}.") from None


def split_list(text: str) -> list[str]:
    """The entries of a text separated by commas, as browsers write origins and hosts."""
    return [part.strip().lower().rstrip("/") for part in text.split(",") if part.strip()]


class HostFilter:
    """Refuses other host names: a site could let one of its own lead to 127.0.0.1 (rebinding)."""

    def __init__(self, app: ASGIApp, hosts: list[str]) -> None:
        from shared.http.cross_origin import CrossOriginPolicy

        self.app, self.hosts = app, hosts
        names = ("CODESPACE_NAME", "GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN")
        self.policy = CrossOriginPolicy(frozenset(), *map(os.environ.get, names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 403."""
        host = Headers(scope=scope).get("host", "").lower() if scope["type"] == "http" else ""
        name = re.sub(r":\d+$", "", host).strip("[]")
        known = self.policy.is_local(name) or {name, host} & set(self.hosts)
        answer = self.app if known or scope["type"] != "http" else UNKNOWN_HOST
        await answer(scope, receive, send)


def make_route(func: Any, prefix: str) -> Route:
    """An HTTP function's route: as on the platform it matches any case, and with a slash after."""
    trigger = func.get_trigger()
    path = "/" + f"{prefix}/{trigger.route or func.get_function_name()}".strip("/")
    path = ROOT_ROUTE.sub("", path) or "/"
    known = CATCH_ALL_PARAMETER.sub(r"/{\1}", ROUTE_PARAMETER.sub(r"/{\1}", path))
    route = Route(known, func.get_user_function(), name=path)
    pattern = CATCH_ALL_PARAMETER.sub(
        r"(?:/(?P<\1>.*))?", ROUTE_PARAMETER.sub(r"(?:/(?P<\1>[^/]+))\2", path)
    )
    route.path_regex = re.compile(f"^{pattern}/?$", re.IGNORECASE)
    route.methods = {method.value for method in trigger.methods or ()} or None
    return route


def main(port: int) -> None:
    """Serve the functions of the app until Ctrl+C."""
    try:
        bound = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        what = "is taken" if "in use" in str(error) else "cannot be used"
        raise SystemExit(f"Port {port} {what}: try `make run PORT={port % 60000 + 1}`.") from None
    # asyncio sets TCP_NODELAY where a socket names its protocol: so small chunks do not wait.
    bound = socket.socket(bound.family, bound.type, socket.IPPROTO_TCP, bound.detach())
    local = {"Values": {}, "Host": {}} | read_json_file("local.settings.json")
    os.environ |= {k: str(v) for k, v in local["Values"].items()} | os.environ  # which stays
    os.environ.pop("CONTAINER_NAME", None)  # a container on a laptop is not the platform's
    os.environ["AZURE_FUNCTIONS_ENVIRONMENT"] = "Development"  # as Core Tools say
    origins = split_list(f"{os.environ.get('ALLOWED_ORIGINS', '')},{local['Host'].get('CORS', '')}")
    os.environ["ALLOWED_ORIGINS"] = ",".join(origins)
    from function_app import app  # only now: it reads the environment

    prefix = (
        read_json_file("host.json").get("extensions", {}).get("http", {}).get("routePrefix", "api")
    )
    routes = [make_route(each, prefix) for each in app.get_functions() if each.is_http_function()]
    routes.sort(key=lambda route: re.findall(r"/(\{?\*?)", route.name))  # literals come first
    empty = dict.fromkeys((404, 405), lambda *_: Response(status_code=404))  # what no route lists
    web = Starlette(routes=routes, exception_handlers=empty)
    web.add_middleware(CORSMiddleware, origins, allow_methods=["*"], allow_headers=["*"])
    web.add_middleware(HostFilter, split_list(os.environ.get("ALLOWED_HOSTS", "")))
    base = f"http://localhost:{bound.getsockname()[1]}"
    told = [*(base + route.name for route in routes), NOTE, f"Listening on {base}"]
    print("\n".join(told), flush=True)
    config = uvicorn.Config(web, log_config=None, log_level="warning", timeout_graceful_shutdown=3)
    uvicorn.Server(config).run([bound])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    cut = re.compile("^Cancel |CancelledE|^Unclosed")  # what Ctrl+C cuts off is no error
    logging.root.handlers[0].addFilter(lambda it: not cut.search(f"{it.msg}{it.exc_info}"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=7071)
    with suppress(KeyboardInterrupt):
        main(parser.parse_args().port)
    print("Stopped.")
