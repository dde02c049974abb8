"""Loads a Functions app by the library of Microsoft's Python worker, and invokes its functions.

A program of its own, `python -m tests.support.functions_worker FOLDER`: the library takes over its
process. It answers each line of JSON on stdin by one on stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
NO_LIBRARY = "FUNCTIONS_HOST names no Python that has azure-functions-runtime"


@cache
def worker_python() -> str | None:
    """The Python of FUNCTIONS_HOST, if it has the worker library."""
    python, *_ = (*shlex.split(os.environ.get("FUNCTIONS_HOST", "")), "")
    check = [python, "-c", "import azure_functions_runtime"]
    try:
        found = subprocess.run(check, capture_output=True, timeout=60, check=False)
    except OSError:
        return None
    return python if found.returncode == 0 else None


needs_worker_library = pytest.mark.skipif(worker_python() is None, reason=NO_LIBRARY)


@dataclass(frozen=True)
class FunctionsWorker:
    """A running worker."""

    process: subprocess.Popen[str]
    functions: Mapping[str, list[dict[str, Any]]]  # the bindings of each function

    def invoke(self, name: str, data: Mapping[str, Any], **metadata: Any) -> str | None:
        """Invoke a function by data of its trigger. Returns the error, None if it succeeded."""
        assert self.process.stdin and self.process.stdout
        call = {"name": name, "data": data, "metadata": metadata}
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()
        error: str | None = json.loads(self.process.stdout.readline())
        return error


@contextmanager
def functions_worker(app: Path, settings: Mapping[str, str]) -> Iterator[FunctionsWorker]:
    """Run a worker with an app until the block ends."""
    modules = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        [worker_python() or "", "-c", START, str(app)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=app,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": modules, **settings},
    ) as process:
        assert process.stdin and process.stdout
        try:
            yield FunctionsWorker(process, json.loads(process.stdout.readline()))
        finally:
            process.stdin.close()
            process.wait(30)


START = "import sys; from tests.support.functions_worker import main; sys.exit(main(sys.argv[1]))"


class Message(SimpleNamespace):
    """Stands in for a message of protobuf."""

    def WhichOneof(self, _group: str) -> str | None:
        return next(iter(vars(self)), None)


class _Protos:
    """Stands in for the messages' module; the library compares with these values alone."""

    enums: Mapping[str, Mapping[str, int]] = {
        "StatusResult": {"Failure": 0, "Success": 1, "Cancelled": 2},
        "BindingInfo": {"in": 0, "out": 1, "inout": 2, "undefined": 0},
    }

    def __getattr__(self, name: str) -> type[Message]:
        return type(name, (Message,), dict(self.enums.get(name, {})))


async def _load(runtime: Any, app: str) -> dict[str, Any]:
    """Index an app. Returns the metadata of each function."""
    runtime.start_threadpool_executor()
    init = Message(capabilities={}, function_app_directory=app)
    _check(await runtime.worker_init_request(_request(worker_init_request=init)))
    found = await runtime.functions_metadata_request(_request())
    _check(found)
    return {each.name: each for each in found.function_metadata_results or ()}


def _request(**content: Any) -> Message:
    properties = {"host": "127.0.0.1", "protos": _PROTOS}
    return Message(request=Message(**content), properties=properties)


def _check(answer: Any) -> None:
    if answer.result.status != 1:
        raise SystemExit(str(answer.result.exception.message))


async def _invoke(runtime: Any, function: Any, call: Mapping[str, Any]) -> str | None:
    (trigger,) = map(json.loads, function.raw_bindings)
    metadata = {name: Message(json=json.dumps(it)) for name, it in call["metadata"].items()}
    invocation = Message(
        invocation_id="1",
        function_id=function.function_id,
        # `data` is the first field: the one that is set.
        input_data=[Message(data=Message(**call["data"]), name=trigger["name"])],
        trigger_metadata=metadata,
        trace_context=Message(trace_parent="", trace_state="", attributes={}),
        retry_context=Message(retry_count=0, max_retry_count=0, exception=None),
    )
    answer = await runtime.invocation_request(_request(invocation_request=invocation))
    return None if answer.result.status == 1 else str(answer.result.exception.message)


async def _serve(app: str) -> None:
    runtime = import_module("azure_functions_runtime")
    functions = await _load(runtime, app)
    bindings = {name: list(map(json.loads, it.raw_bindings)) for name, it in functions.items()}
    print(json.dumps(bindings), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        call = json.loads(line)
        error = await _invoke(runtime, functions[call["name"]], call)
        print(json.dumps(error), flush=True)


def main(app: str) -> int:
    """Serve an app until stdin ends."""
    sys.path.insert(0, app)
    asyncio.run(_serve(app))
    return 0


_PROTOS = _Protos()
