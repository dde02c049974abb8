"""A strict fake of Azure Cosmos DB for NoSQL: one container, over TLS, with failures.

It rejects what the service rejects: a call without a partition, an order without its composite
index, a time to live of 0, an id that is not a path. It executes only the queries of the app.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote

import trustme
from azure.core.credentials_async import AsyncTokenCredential

from shared.memory.base import Clock, Memory, Retention
from shared.memory.cosmos.items import ContainerLocation
from shared.memory.cosmos.store import open_cosmos
from tests.support.azurite import AzuriteCredential
from tests.support.upstream import (
    Exchange,
    RecordedRequest,
    Server,
    Step,
    http_chunk,
    response_head,
    run_upstream,
)

Item = dict[str, Any]
Items = dict[str, Item]
MAX_CHANGES, MAX_BYTES, MAX_ROWS = 100, 2 * 1024 * 1024, 100
DATABASE, CONTAINER = "chat", "memory"
FOLDER = f"/dbs/{DATABASE}/colls/{CONTAINER}/"
COPIES_FOLDER = f"/dbs/{DATABASE}/colls/feedback/"
COPIES_PARTITION = "app:copies"
QUERY_FORM = re.compile(
    r"SELECT (?P<what>\*|c\.id|VALUE COUNT\(1\)) FROM c WHERE c\.conversation = @conversation"
    r"(?P<sorted> ORDER BY c\.conversation (?P<way>ASC|DESC), c\.sort (?P=way)"
    r" OFFSET @start LIMIT @size)?"
    r"|(?P<answers>SELECT \* FROM c WHERE c\.conversation > @conversation"
    r" AND c\.request = @request)"
    r"|(?P<sum>SELECT VALUE SUM\(c\.bytes\) FROM c WHERE c\.conversation > @conversation)"
)
INDEX = [{"path": f"/{name}", "order": "ascending"} for name in ("conversation", "sort")]
SYSTEM_PROPERTIES = {"_rid", "_self", "_etag", "_ts", "_attachments"}
METADATA_KINDS = ("account", "container")


class RequestRejected(Exception):
    """A request that the service would reject, with the status."""

    def __init__(self, status: int, substatus: int = 0) -> None:
        super().__init__(status)
        self.status, self.substatus = status, substatus


@dataclass(frozen=True)
class Operation:
    """One call for items with its response status, and the number of items that it read."""

    kind: str
    partition: str
    items_read: int
    status: int


@dataclass
class Fault:
    """The response of `times` calls of a kind, or of any item call, after `after` normal ones.

    `applied`: the call takes effect, and only its response is replaced.
    """

    steps: list[Step]
    after: int = 0
    times: int = 1
    kind: str = ""
    applied: bool = False

    def matches(self, kind: str) -> bool:
        """Returns whether the fault applies to this call."""
        if self.times == 0 or (self.kind != kind and (self.kind or kind in METADATA_KINDS)):
            return False
        self.after -= 1
        if self.after < 0:
            self.times -= 1
        return self.after < 0


def cosmos_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> list[Step]:
    """A JSON response, or one without a body."""
    if status == 204:
        return [b"HTTP/1.1 204 X\r\n\r\n"]
    body = [] if value is None else [http_chunk(json.dumps(value).encode())]
    all_headers = {"Content-Type": "application/json", "x-ms-activity-id": "a", **(headers or {})}
    return [response_head(status, all_headers), *body, b"0\r\n\r\n"]


def cosmos_error(status: int, headers: Mapping[str, str] | None = None) -> list[Step]:
    """An error response whose message repeats the request, as the service's do."""
    return cosmos_response({"code": "X", "message": "the service's own words"}, status, headers)


def require(holds: bool, status: int = 400) -> None:
    """Raises RequestRejected where a condition is false."""
    if not holds:
        raise RequestRejected(status)


@dataclass
class FakeCosmos(Server):
    """An account with a container, and one for answer copies.

    Tests may write and read `partitions`.

    `meanwhile` maps numbers of operations to changes by other clients, made after as many. A count
    of more than `max_count` items is split into pages.
    """

    now: Clock = time.time
    partitions: dict[str, Items] = field(default_factory=dict)
    composite: list[Any] = field(default_factory=lambda: [INDEX])
    ttl: int | None = -1
    exists: bool = True
    faults: list[Fault] = field(default_factory=list)
    meanwhile: dict[int, Callable[[], object]] = field(default_factory=dict)
    max_count: int = 1_000_000
    operations: list[Operation] = field(default_factory=list)
    written: int = 0
    items_read: int = 0

    @property
    def items(self) -> list[Item]:
        """The items of all partitions, without system properties."""
        every = [item for part in self.partitions.values() for item in part.values()]
        return [{k: v for k, v in item.items() if k not in SYSTEM_PROPERTIES} for item in every]

    def fill(self, item: Item) -> None:
        """Store an item without a call."""
        self.store(self.partitions.setdefault(item["owner"], {}), item)

    def fail(self, steps: list[Step], **how: Any) -> None:
        """Make item calls fail: see Fault."""
        self.faults.append(Fault(steps, **how))

    def next_steps(self, request: RecordedRequest) -> list[Step]:
        kind, self.items_read = operation_kind(request), 0
        if kind not in METADATA_KINDS:
            self.meanwhile.pop(len(self.operations), lambda: None)()
        fault = next((each for each in self.faults if each.matches(kind)), None)
        if fault is not None and not fault.applied:
            self.record(request, kind, 0)
            return fault.steps
        try:
            status, value, headers = self.handle(request, kind)
        except RequestRejected as refused:
            status, value, headers = refused.status, {"message": "no"}, {}
            headers = {"x-ms-substatus": str(refused.substatus)} if refused.substatus else {}
        self.record(request, kind, status)
        return fault.steps if fault is not None else cosmos_response(value, status, headers)

    def record(self, request: RecordedRequest, kind: str, status: int) -> None:
        if kind not in METADATA_KINDS:
            partition = request.headers.get("x-ms-documentdb-partitionkey", "")
            self.operations.append(Operation(kind, partition, self.items_read, status))

    def handle(self, request: RecordedRequest, kind: str) -> tuple[int, Any, dict[str, str]]:
        signed = unquote(request.headers.get("authorization", ""))
        require(re.fullmatch(r"type=aad&ver=1\.0&sig=\S+", signed) is not None, 401)
        require("x-ms-version" in request.headers and "x-ms-date" in request.headers)
        if kind == "account":
            return 200, self.account(), {}
        if not self.exists:
            raise RequestRejected(404, 0 if kind == "container" else 1003)
        if kind == "container":
            return 200, self.container(request.path), {"etag": '"1"'}
        require(kind != "")
        partition = self.partition(request)
        require((partition == COPIES_PARTITION) is request.path.startswith(COPIES_FOLDER), 403)
        if kind == "query":
            return self.query(request, partition)
        if kind == "batch":
            return self.batch(request.body, partition)
        return self.single(request, kind, partition)

    def account(self) -> Item:
        region = [{"name": "West Europe", "databaseAccountEndpoint": self.url}]
        policy = {"defaultConsistencyLevel": "Strong", "maxStalenessPrefix": 100}
        places = {"writableLocations": region, "readableLocations": region}
        return {"id": "a", "_rid": "a", "_self": "", "userConsistencyPolicy": policy, **places}

    def container(self, folder: str) -> Item:
        key = {"paths": ["/owner"], "kind": "Hash", "version": 2}
        policy = {"indexingMode": "consistent", "compositeIndexes": self.composite}
        name = folder.split("/")[-2]
        properties = {"id": name, "partitionKey": key, "indexingPolicy": policy}
        return {**properties, "defaultTtl": self.ttl, "_rid": "AAAAAAAAAAA=", "_self": folder}

    def partition(self, request: RecordedRequest) -> str:
        """The partition key of a call."""
        require(
            request.headers.get("x-ms-documentdb-query-enablecrosspartition", "False") == "False"
        )
        key = json.loads(request.headers.get("x-ms-documentdb-partitionkey", "null"))
        require(
            isinstance(key, list) and len(key) == 1 and isinstance(key[0], str) and key[0] != ""
        )
        return str(key[0])

    def live_items(self, partition: str) -> Items:
        """The items of a partition that have not expired."""
        items = self.partitions.setdefault(partition, {})
        for id in [id for id, item in items.items() if self.is_expired(item)]:
            del items[id]
        return items

    def is_expired(self, item: Item) -> bool:
        ttl = item.get("ttl", self.ttl) if self.ttl is not None else -1
        return bool(ttl > 0 and int(self.now()) >= item["_ts"] + ttl)

    def single(
        self, request: RecordedRequest, kind: str, partition: str
    ) -> tuple[int, Any, dict[str, str]]:
        id = unquote(request.path.removeprefix(folder_of(request) + "docs/").strip("/"))
        status, value = self.apply(
            self.live_items(partition),
            partition,
            {"operationType": kind, "id": id, "resourceBody": request.body},
        )
        if status >= 400:
            raise RequestRejected(status)
        return status, value, {"etag": value["_etag"]} if value else {}

    def batch(self, changes: Any, partition: str) -> tuple[int, Any, dict[str, str]]:
        require(isinstance(changes, list) and 0 < len(changes) <= MAX_CHANGES)
        require(len(json.dumps(changes)) <= MAX_BYTES, 413)
        items, results = dict(self.live_items(partition)), []
        for change in changes:
            status, value = self.apply(items, partition, change)
            results.append({"statusCode": status, "resourceBody": value, "requestCharge": 1})
            if status >= 400:
                at = len(results) - 1
                rest: list[Item] = [{"statusCode": 424, "requestCharge": 0} for _ in changes]
                return 207, [*rest[:at], results[at], *rest[at + 1 :]], {}
        self.partitions[partition] = items
        return 200, results, {}

    def apply(self, items: Items, partition: str, change: Item) -> tuple[int, Any]:
        """One operation on the items of a partition: its status, and the item."""
        operations: dict[str, Callable[[Items, Item], tuple[int, Any]]] = {
            "Create": self.create,
            "Upsert": self.upsert,
            "Replace": self.replace,
            "Patch": self.patch,
            "Read": lambda items, change: (200, items[change["id"]]),
            "Delete": lambda items, change: (204, items.pop(change["id"], None)),
        }
        kind, body = change["operationType"], change.get("resourceBody")
        if kind in ("Create", "Upsert", "Replace"):
            require(isinstance(body, dict) and body.get("owner") == partition)
            self.validate(body or {})
        self.items_read += 1
        if kind not in ("Create", "Upsert") and change["id"] not in items:
            return 404, None
        status, item = operations[kind](items, change)
        return status, None if kind == "Delete" else item

    def create(self, items: Items, change: Item) -> tuple[int, Any]:
        if change["resourceBody"]["id"] in items:
            return 409, None
        return 201, self.store(items, change["resourceBody"])

    def upsert(self, items: Items, change: Item) -> tuple[int, Any]:
        there = change["resourceBody"]["id"] in items
        return 200 if there else 201, self.store(items, change["resourceBody"])

    def replace(self, items: Items, change: Item) -> tuple[int, Any]:
        require(change["resourceBody"]["id"] == change["id"])
        return 200, self.store(items, change["resourceBody"])

    def patch(self, items: Items, change: Item) -> tuple[int, Any]:
        sets, item = change["resourceBody"]["operations"], dict(items[change["id"]])
        require(0 < len(sets) <= 10)
        for each in sets:
            name = each["path"].removeprefix("/")
            require(each["op"] == "set" and re.fullmatch("[a-z][a-z_]*", name) is not None)
            require(name not in ("id", "owner"))
            item[name] = each["value"]
        self.validate(item)
        return 200, self.store(items, item)

    def validate(self, item: Item) -> None:
        """Raises RequestRejected for an item that the service would reject."""
        require(re.fullmatch(r"[^/\\?#\t\r\n]{0,254}[^/\\?#\s]", str(item.get("id"))) is not None)
        ttl = item.get("ttl", -1)
        require(type(ttl) is int and (ttl > 0 or ttl == -1) and ttl < 2**31)
        require(len(json.dumps(item)) <= MAX_BYTES, 413)

    def store(self, items: Items, item: Item) -> Item:
        self.written += 1
        old = items.get(item["id"], {})
        own = {"_rid": old.get("_rid", f"{self.written:012d}"), "_etag": f'"{self.written}"'}
        own["_self"] = f"dbs/AAAAAA==/colls/AAAAAAAAAAA=/docs/{own['_rid']}/"
        items[item["id"]] = {**item, **own, "_ts": int(self.now())}
        return items[item["id"]]

    def query(self, request: RecordedRequest, partition: str) -> tuple[int, Any, dict[str, str]]:
        require(request.headers.get("content-type") == "application/query+json")
        form = QUERY_FORM.fullmatch(request.body["query"])
        values = {each["name"]: each["value"] for each in request.body.get("parameters", ())}
        require(form is not None and isinstance(values.get("@conversation"), str))
        assert form is not None
        live = self.live_items(partition).values()
        if form["sum"]:  # undefined values are left out
            sizes = [item["bytes"] for item in live if "bytes" in item and item["conversation"]]
            return 200, {"_rid": "A", "Documents": [sum(sizes)], "_count": 1}, {}
        if form["answers"]:
            require(isinstance(values.get("@request"), str) and values["@conversation"] == "")
            rows = [item for item in live if item["conversation"]]
            rows = [item for item in rows if item.get("request") == values["@request"]]
            return self.result_page(rows, "*", request.headers.get("x-ms-continuation"))
        rows = [item for item in live if item["conversation"] == values["@conversation"]]
        if form["what"].startswith("VALUE"):
            return self.count_page(len(rows), request.headers.get("x-ms-continuation"))
        if form["sorted"]:
            require(INDEX in self.composite)
            rows = self.sort_page(rows, form["way"], values)
        else:
            rows.sort(key=lambda item: str(item["_rid"]))
            self.items_read = len(rows)
        return self.result_page(rows, form["what"], request.headers.get("x-ms-continuation"))

    def count_page(self, rows: int, after: str | None) -> tuple[int, Any, dict[str, str]]:
        """A count, or one page of it. The index answers it: no item is read."""
        remaining = rows - int(after or 0)
        more = remaining > self.max_count
        headers = {"x-ms-continuation": str(int(after or 0) + self.max_count)} if more else {}
        part = min(remaining, self.max_count)
        return 200, {"_rid": "A", "Documents": [part], "_count": 1}, headers

    def sort_page(self, rows: list[Item], way: str, values: Mapping[str, Any]) -> list[Item]:
        """One page of the rows. "OFFSET LIMIT still loads each item, including those skipped"."""
        require({"@start", "@size"} <= values.keys())
        start, size = values["@start"], values["@size"]
        require(type(start) is int and type(size) is int and min(start, size) >= 0)
        rows.sort(key=lambda item: str(item["sort"]), reverse=way == "DESC")
        self.items_read = len(rows[: start + size])
        return rows[start : start + size]

    def result_page(
        self, rows: list[Item], what: str, after: str | None
    ) -> tuple[int, Any, dict[str, str]]:
        """A page of the results, and the continuation of the next one."""
        ids = [item["_rid"] for item in rows]
        at = ids.index(after) + 1 if after else 0
        page = rows[at : at + MAX_ROWS]
        more = {"x-ms-continuation": page[-1]["_rid"]} if rows[at + MAX_ROWS :] else {}
        documents = page if what == "*" else [{"id": item["id"]} for item in page]
        return 200, {"_rid": "A", "Documents": documents, "_count": len(documents)}, more


def folder_of(request: RecordedRequest) -> str:
    """The path of the container that a request is about."""
    return COPIES_FOLDER if request.path.startswith(COPIES_FOLDER) else FOLDER


def operation_kind(request: RecordedRequest) -> str:
    """The kind of a request; "" for an unknown one."""
    if request.path in ("/", folder_of(request)):
        kind = "account" if request.path == "/" else "container"
        return kind if request.method == "GET" else ""
    if not request.path.startswith(folder_of(request) + "docs/"):
        return ""
    if request.path != folder_of(request) + "docs/":
        kinds = {"GET": "Read", "PUT": "Replace", "PATCH": "Patch", "DELETE": "Delete"}
        return kinds.get(request.method, "")
    marks = {
        "x-ms-documentdb-isquery": "query",
        "x-ms-cosmos-is-batch-request": "batch",
        "x-ms-documentdb-is-upsert": "Upsert",
    }
    matching = [
        kind for name, kind in marks.items() if request.headers.get(name, "").lower() == "true"
    ]
    return [*matching, "Create"][0]


@cache
def tls_context() -> ssl.SSLContext:
    """TLS for 127.0.0.1, which the SDK does not verify there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


@contextmanager
def run_cosmos(now: Clock = time.time, **how: Any) -> Iterator[FakeCosmos]:
    """Run an account with an empty container until the block ends."""
    with run_upstream(FakeCosmos(now=now, **how), tls_context()) as fake:
        yield fake


@asynccontextmanager
async def open_cosmos_memory(
    fake: FakeCosmos,
    retention_seconds: float | None = None,
    now: Clock | None = None,
    seconds: float = 10,
    credential: AsyncTokenCredential | None = None,
    max_conversations: int | None = None,
    max_bytes: int | None = None,
) -> AsyncIterator[Memory]:
    """Opens a memory on the account with the real SDK. The default clock is the account's."""
    place = ContainerLocation(fake.url, DATABASE, CONTAINER)
    retention = Retention(retention_seconds, max_conversations, max_bytes)
    memory = open_cosmos(
        place, credential or AzuriteCredential(), retention, seconds, now or fake.now
    )
    try:
        yield memory
    finally:
        await memory.close()
        await connections_closed(fake)


async def connections_closed(fake: FakeCosmos) -> None:
    """Wait for the end of all connections: aiohttp closes TLS a little after it reports it."""
    while fake.open_connections:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)


RESET: list[Step] = [Exchange.reset]
STALL: list[Step] = [Exchange.stall]
