"""Azure Data Lake Storage: its blobs, and the access lists of its paths. It is strict.

Requests and responses are those of the REST reference: List Blobs, Get Blob, Get Blob Properties,
and Path - Get Properties with `action=getAccessControl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import md5
from pathlib import PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.upstream import RecordedRequest, Server, Step, http_chunk, response_head

ACCOUNT = "account"
ROOT_LIST = "user::rwx,group::r-x,other::---"
DATE = "Thu, 26 Nov 2026 08:00:00 GMT"
PAGE = 3  # blobs of a listing


@dataclass(frozen=True)
class PathList:
    """The owners and the access list of a path; `status` in their place is an error."""

    acl: str
    owner: str = "$superuser"
    group: str = "$superuser"
    status: int = 200


@dataclass
class FakeDataLake(Server):
    """One container of an account.

    `lists` has the access lists of files and folders; a folder's name is "" for the root.
    """

    container: str = "docs"
    files: dict[str, bytes] = field(default_factory=dict)
    lists: dict[str, PathList] = field(default_factory=dict)
    is_hierarchical: bool = True
    flat_error: tuple[int, str] = (400, "")  # the answer to a request for an access list
    failures: dict[str, list[Step]] = field(default_factory=dict)  # of downloads, by the file
    listed: dict[str, bytes] = field(default_factory=dict)  # files that have changed since

    @property
    def address(self) -> str:
        return f"{self.url}/{ACCOUNT}/{self.container}"

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        """Refuse what Azure Storage refuses: no token, plain versions, another container."""
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return storage_error(401, "NoAuthenticationInformation")
        if request.headers.get("x-ms-version", "") < "2020-06-12":
            return storage_error(400, "InvalidHeaderValue")
        path = unquote(urlsplit(request.path).path)
        if not f"{path}/".startswith(f"/{ACCOUNT}/{self.container}/"):
            return storage_error(404, "ContainerNotFound")
        return None

    def respond(self, request: RecordedRequest) -> list[Step]:
        url = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        name = unquote(url.path).removeprefix(f"/{ACCOUNT}/{self.container}").strip("/")
        if "comp" in query:
            return self._list(query)
        if "action" in query:
            return self._access_list(request, name, query)
        if name not in self.files:
            error = storage_error(404, "BlobNotFound")
            return error[:1] if request.method == "HEAD" else error
        if name in self.failures and request.method == "GET":
            return self.failures[name]
        return self._blob(request, self.files[name])

    def _list(self, query: Mapping[str, str]) -> list[Step]:
        if query["comp"] != "list" or query.get("restype") != "container":
            return storage_error(400, "InvalidQueryParameterValue")
        folders = {str(folder) for name in self.files for folder in PurePosixPath(name).parents} - {
            "."
        }
        names = sorted(folders | self.files.keys()) if self.is_hierarchical else sorted(self.files)
        wanted = [name for name in names if name.startswith(query.get("prefix", ""))]
        start = int(query.get("marker", 0))
        page, rest = wanted[start : start + PAGE], wanted[start + PAGE :]
        blobs = "".join(self._describe(name) for name in page)
        marker = f"<NextMarker>{start + PAGE}</NextMarker>" if rest else "<NextMarker />"
        xml = f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>{blobs}</Blobs>'
        body = f"{xml}{marker}</EnumerationResults>".encode()
        head = response_head(200, {"Content-Type": "application/xml"})
        return [head, http_chunk(body), b"0\r\n\r\n"]

    def _describe(self, name: str) -> str:
        content = self.listed.get(name, self.files.get(name, b""))
        folder = "" if name in self.files else "<hdi_isfolder>true</hdi_isfolder>"
        return (
            f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{DATE}</Last-Modified>"
            f"<Etag>{etag(content)}</Etag><Content-Length>{len(content)}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>"
            f"</Properties><Metadata>{folder}</Metadata></Blob>"
        )

    def _access_list(
        self, request: RecordedRequest, name: str, query: Mapping[str, str]
    ) -> list[Step]:
        if not self.is_hierarchical:
            return storage_error(*self.flat_error)[:1]
        if request.method != "HEAD" or query != {"action": "getAccessControl", "upn": "false"}:
            return storage_error(400, "InvalidQueryParameterValue")
        found = self.lists.get(name, PathList(ROOT_LIST))
        if found.status != 200:
            return storage_error(found.status, "", **{"retry-after-ms": "1"})[:1]
        lists = {"x-ms-acl": found.acl, "x-ms-owner": found.owner, "x-ms-group": found.group}
        return [response_head(200, {**lists, "ETag": '"0x1"', "Last-Modified": DATE})]

    def _blob(self, request: RecordedRequest, content: bytes) -> list[Step]:
        headers = {
            "Content-Type": "application/octet-stream",
            "ETag": f'"{etag(content)}"',
            "Last-Modified": DATE,
            "x-ms-blob-type": "BlockBlob",
        }
        if request.method == "HEAD":
            return [response_head(200, headers)]
        if request.headers.get("if-match", headers["ETag"]) != headers["ETag"]:
            return storage_error(412, "ConditionNotMet")
        first, last = map(int, request.headers["x-ms-range"].removeprefix("bytes=").split("-"))
        part = content[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        return [response_head(206, headers), http_chunk(part), b"0\r\n\r\n"]


def etag(content: bytes) -> str:
    return f"0x{md5(content).hexdigest()}"


def storage_error(status: int, code: str, **headers: str) -> list[Step]:
    """An error of Azure Storage, without a body. To a HEAD request, only its head is sent."""
    all_headers = {"x-ms-error-code": code, "Content-Type": "application/xml", **headers}
    return [response_head(status, all_headers), b"0\r\n\r\n"]
