"""A small, strict Azure Cosmos DB for NoSQL: one container, over TLS, with its ways to fail.

It refuses what the service would: a call without a partition, an order without its composite
index, a time to live of nothing, an id that has no path. It obeys the few queries of ours.
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
QUERY_FORM = re.compile(
    r"SELECT (?P<what>\*|c\.id|VALUE COUNT\(1\)) FROM c WHERE c\.conversation = @conversation"
    r"(?P<sorted> ORDER BY c\.conversation (?P<way>ASC|DESC), c\.sort (?P=way)"
    r" OFFSET @start LIMIT @size)?"
)
INDEX = [{"path": f"/{name}", "order": "ascending"} for name in ("conversation", "sort")]
SYSTEM_PROPERTIES = {"_rid", "_self", "_etag", "_ts", "_attachments"}
METADATA_KINDS = ("account", "container")


class RequestRejected(Exception):
    """What the service would not do, with its status."""

    def __init__(self, status: int, substatus: int = 0) -> None:
        super().__init__(status)
        self.status, self.substatus = status, substatus


@dataclass(frozen=True)
class Operation:
    """One call for items as it was answered: what it was, and how many items it looked at."""

    kind: str
    partition: str
    looked: int
    status: int


@dataclass
class Fault:
    """What `times` calls of a kind get, or of any for items, when `after` have been let through.

    `applied`: the call does its work, only its answer is another.
    """

    steps: list[Step]
    after: int = 0
    times: int = 1
    kind: str = ""
    applied: bool = False

    def takes(self, kind: str) -> bool:
        """Whether it befalls this call."""
        if self.times == 0 or (self.kind != kind and (self.kind or kind in METADATA_KINDS)):
            return False
        self.after -= 1
        if self.after < 0:
            self.times -= 1
        return self.after < 0


def cosmos_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> list[Step]:
    """An answer in JSON, or without a body."""
    if status == 204:
        return [b"HTTP/1.1 204 X\r\n\r\n"]
    body = [] if value is None else [http_chunk(json.dumps(value).encode())]
    named = {"Content-Type": "application/json", "x-ms-activity-id": "a", **(headers or {})}
    return [response_head(status, named), *body, b"0\r\n\r\n"]


def cosmos_error(status: int, headers: Mapping[str, str] | None = None) -> list[Step]:
    """A refusal, in words of the service's own that tell what was asked."""
    return cosmos_response({"code": "X", "message": "the service's own words"}, status, headers)


def require(holds: bool, status: int = 400) -> None:
    """Refuse what does not hold."""
    if not holds:
        raise RequestRejected(status)


@dataclass
class FakeCosmos(Server):
    """An account with one container. `partitions` may be filled and read by a test.

    `meanwhile` is what others do when so many operations are behind us. A count of more than
    `most_counted` items comes in parts, each in a page of its own.
    """

    now: Clock = time.time
    partitions: dict[str, Items] = field(default_factory=dict)
    composite: list[Any] = field(default_factory=lambda: [INDEX])
    ttl: int | None = -1
    exists: bool = True
    faults: list[Fault] = field(default_factory=list)
    meanwhile: dict[int, Callable[[], object]] = field(default_factory=dict)
    most_counted: int = 1_000_000
    operations: list[Operation] = field(default_factory=list)
    written: int = 0
    looked: int = 0

    @property
    def items(self) -> list[Item]:
        """All that is there, in every partition, as it was sent."""
        every = [item for part in self.partitions.values() for item in part.values()]
        return [{k: v for k, v in item.items() if k not in SYSTEM_PROPERTIES} for item in every]

    def fill(self, item: Item) -> None:
        """Put an item there without a call."""
        self.store(self.partitions.setdefault(item["owner"], {}), item)

    def fail(self, steps: list[Step], **how: Any) -> None:
        """Let calls for items fail: see Fault."""
        self.faults.append(Fault(steps, **how))

    def next_steps(self, asked: RecordedRequest) -> list[Step]:
        kind, self.looked = operation_kind(asked), 0
        if kind not in METADATA_KINDS:
            self.meanwhile.pop(len(self.operations), lambda: None)()
        fault = next((each for each in self.faults if each.takes(kind)), None)
        if fault is not None and not fault.applied:
            self.note(asked, kind, 0)
            return fault.steps
        try:
            status, value, headers = self.done(asked, kind)
        except RequestRejected as refused:
            status, value, headers = refused.status, {"message": "no"}, {}
            headers = {"x-ms-substatus": str(refused.substatus)} if refused.substatus else {}
        self.note(asked, kind, status)
        return fault.steps if fault is not None else cosmos_response(value, status, headers)

    def note(self, asked: RecordedRequest, kind: str, status: int) -> None:
        if kind not in METADATA_KINDS:
            partition = asked.headers.get("x-ms-documentdb-partitionkey", "")
            self.operations.append(Operation(kind, partition, self.looked, status))

    def done(self, asked: RecordedRequest, kind: str) -> tuple[int, Any, dict[str, str]]:
        signed = unquote(asked.headers.get("authorization", ""))
        require(re.fullmatch(r"type=aad&ver=1\.0&sig=\S+", signed) is not None, 401)
        require("x-ms-version" in asked.headers and "x-ms-date" in asked.headers)
        if kind == "account":
            return 200, self.account(), {}
        if not self.exists:
            raise RequestRejected(404, 0 if kind == "container" else 1003)
        if kind == "container":
            return 200, self.container(), {"etag": '"1"'}
        require(kind != "")
        partition = self.partition(asked)
        if kind == "query":
            return self.query(asked, partition)
        if kind == "batch":
            return self.batch(asked.body, partition)
        return self.single(asked, kind, partition)

    def account(self) -> Item:
        region = [{"name": "West Europe", "databaseAccountEndpoint": self.url}]
        policy = {"defaultConsistencyLevel": "Strong", "maxStalenessPrefix": 100}
        places = {"writableLocations": region, "readableLocations": region}
        return {"id": "a", "_rid": "a", "_self": "", "userConsistencyPolicy": policy, **places}

    def container(self) -> Item:
        key = {"paths": ["/owner"], "kind": "Hash", "version": 2}
        policy = {"indexingMode": "consistent", "compositeIndexes": self.composite}
        made = {"id": CONTAINER, "partitionKey": key, "indexingPolicy": policy}
        return {**made, "defaultTtl": self.ttl, "_rid": "AAAAAAAAAAA=", "_self": FOLDER}

    def partition(self, asked: RecordedRequest) -> str:
        """The one partition that a call is for."""
        require(asked.headers.get("x-ms-documentdb-query-enablecrosspartition", "False") == "False")
        key = json.loads(asked.headers.get("x-ms-documentdb-partitionkey", "null"))
        require(
            isinstance(key, list) and len(key) == 1 and isinstance(key[0], str) and key[0] != ""
        )
        return str(key[0])

    def there(self, partition: str) -> Items:
        """The items of a partition whose time is not over."""
        items = self.partitions.setdefault(partition, {})
        for id in [id for id, item in items.items() if self.over(item)]:
            del items[id]
        return items

    def over(self, item: Item) -> bool:
        ttl = item.get("ttl", self.ttl) if self.ttl is not None else -1
        return bool(ttl > 0 and int(self.now()) >= item["_ts"] + ttl)

    def single(
        self, asked: RecordedRequest, kind: str, partition: str
    ) -> tuple[int, Any, dict[str, str]]:
        id = unquote(asked.path.removeprefix(FOLDER + "docs/").strip("/"))
        status, value = self.act(
            self.there(partition),
            partition,
            {"operationType": kind, "id": id, "resourceBody": asked.body},
        )
        if status >= 400:
            raise RequestRejected(status)
        return status, value, {"etag": value["_etag"]} if value else {}

    def batch(self, changes: Any, partition: str) -> tuple[int, Any, dict[str, str]]:
        require(isinstance(changes, list) and 0 < len(changes) <= MAX_CHANGES)
        require(len(json.dumps(changes)) <= MAX_BYTES, 413)
        items, results = dict(self.there(partition)), []
        for change in changes:
            status, value = self.act(items, partition, change)
            results.append({"statusCode": status, "resourceBody": value, "requestCharge": 1})
            if status >= 400:
                at = len(results) - 1
                rest: list[Item] = [{"statusCode": 424, "requestCharge": 0} for _ in changes]
                return 207, [*rest[:at], results[at], *rest[at + 1 :]], {}
        self.partitions[partition] = items
        return 200, results, {}

    def act(self, items: Items, partition: str, change: Item) -> tuple[int, Any]:
        """One operation on the items of a partition: its status, and the item."""
        acts: dict[str, Callable[[Items, Item], tuple[int, Any]]] = {
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
            self.sound(body or {})
        self.looked += 1
        if kind not in ("Create", "Upsert") and change["id"] not in items:
            return 404, None
        status, item = acts[kind](items, change)
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
        self.sound(item)
        return 200, self.store(items, item)

    def sound(self, item: Item) -> None:
        """Refuse an item that the service would not take."""
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

    def query(self, asked: RecordedRequest, partition: str) -> tuple[int, Any, dict[str, str]]:
        require(asked.headers.get("content-type") == "application/query+json")
        form = QUERY_FORM.fullmatch(asked.body["query"])
        values = {each["name"]: each["value"] for each in asked.body.get("parameters", ())}
        require(form is not None and isinstance(values.get("@conversation"), str))
        assert form is not None
        rows = [
            item
            for item in self.there(partition).values()
            if item["conversation"] == values["@conversation"]
        ]
        if form["what"].startswith("VALUE"):
            return self.counted(len(rows), asked.headers.get("x-ms-continuation"))
        if form["sorted"]:
            require(INDEX in self.composite)
            rows = self.sorted(rows, form["way"], values)
        else:
            rows.sort(key=lambda item: str(item["_rid"]))
            self.looked = len(rows)
        return self.rows(rows, form["what"], asked.headers.get("x-ms-continuation"))

    def counted(self, rows: int, after: str | None) -> tuple[int, Any, dict[str, str]]:
        """A count, or a part of it. It comes from the index: no item is loaded."""
        left = rows - int(after or 0)
        more = left > self.most_counted
        headers = {"x-ms-continuation": str(int(after or 0) + self.most_counted)} if more else {}
        part = min(left, self.most_counted)
        return 200, {"_rid": "A", "Documents": [part], "_count": 1}, headers

    def sorted(self, rows: list[Item], way: str, values: Mapping[str, Any]) -> list[Item]:
        """A part of the rows. "OFFSET LIMIT still loads each item, including those skipped"."""
        require({"@start", "@size"} <= values.keys())
        start, size = values["@start"], values["@size"]
        require(type(start) is int and type(size) is int and min(start, size) >= 0)
        rows.sort(key=lambda item: str(item["sort"]), reverse=way == "DESC")
        self.looked = len(rows[: start + size])
        return rows[start : start + size]

    def rows(
        self, rows: list[Item], what: str, after: str | None
    ) -> tuple[int, Any, dict[str, str]]:
        """A page of what was found, and where the next one begins."""
        ids = [item["_rid"] for item in rows]
        at = ids.index(after) + 1 if after else 0
        page = rows[at : at + MAX_ROWS]
        more = {"x-ms-continuation": page[-1]["_rid"]} if rows[at + MAX_ROWS :] else {}
        shown = page if what == "*" else [{"id": item["id"]} for item in page]
        return 200, {"_rid": "A", "Documents": shown, "_count": len(shown)}, more


def operation_kind(asked: RecordedRequest) -> str:
    """What a request asks for; "" for what nobody should."""
    if asked.path in ("/", FOLDER):
        named = "account" if asked.path == "/" else "container"
        return named if asked.method == "GET" else ""
    if not asked.path.startswith(FOLDER + "docs/"):
        return ""
    if asked.path != FOLDER + "docs/":
        kinds = {"GET": "Read", "PUT": "Replace", "PATCH": "Patch", "DELETE": "Delete"}
        return kinds.get(asked.method, "")
    marks = {
        "x-ms-documentdb-isquery": "query",
        "x-ms-cosmos-is-batch-request": "batch",
        "x-ms-documentdb-is-upsert": "Upsert",
    }
    said = [kind for name, kind in marks.items() if asked.headers.get(name, "").lower() == "true"]
    return [*said, "Create"][0]


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
) -> AsyncIterator[Memory]:
    """The memory over it, by the real SDK; its clock is the account's unless told otherwise."""
    place = ContainerLocation(fake.url, DATABASE, CONTAINER)
    retention = Retention(retention_seconds, max_conversations)
    memory = open_cosmos(
        place, credential or AzuriteCredential(), retention, seconds, now or fake.now
    )
    try:
        yield memory
    finally:
        await memory.close()
        while fake.open_connections:  # aiohttp closes TLS a little after it has said so
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)


RESET: list[Step] = [Exchange.reset]
STALL: list[Step] = [Exchange.stall]
