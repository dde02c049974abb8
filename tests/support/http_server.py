"""Serves a handler of the standard library on 127.0.0.1, in a thread."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that prints nothing."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def run_http_server(
    handler: type[QuietHandler], add_certificate: Callable[[ssl.SSLContext], None] | None = None
) -> Iterator[str]:
    """Yield the address of the server: https if there is a certificate."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    scheme = "http"
    if add_certificate:
        context, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
        add_certificate(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
