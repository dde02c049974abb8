"""The dev server, with a second server in its process that counts what is in progress there."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json

import dev_server
from tests.support.http_server import QuietHandler, run_http_server


class TaskHandler(QuietHandler):
    """Answers with the names of the coroutines of the tasks that are not done."""

    def do_GET(self) -> None:
        """Collect what is garbage, then answer."""
        gc.collect()
        tasks = [each for each in gc.get_objects() if isinstance(each, asyncio.Task)]
        names = [getattr(each.get_coro(), "__qualname__", "") for each in tasks if not each.done()]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(sorted(names)).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    with run_http_server(TaskHandler) as url:
        print(f"tasks: {url}", flush=True)
        dev_server.main(parser.parse_args().port)
