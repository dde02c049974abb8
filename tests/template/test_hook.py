"""The postprovision hook: sample documents, local settings, interruption."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import trustme

from scripts.local_settings import write_local_settings
from shared.files.headers import guess_media_type
from tests.support.azurite import azurite, needs_azurite
from tests.support.hook import TIMEOUT, Cloud, SearchService, make_cloud, project
from tests.support.packaging import needs_git
from tests.support.resource_manager import OPENAI_ID, SEARCH_ID, ResourceManager, serve
from tests.support.servers import ROOT, get_answer, run_server
from tests.support.upstream import (
    Exchange,
    RecordedRequest,
    Server,
    Step,
    error_response,
)

FORBIDDEN: list[Step] = [b"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n"]
DOCUMENTS = ROOT / "shared" / "data" / "documents"
pytestmark = needs_git
__all__ = ["project"]  # fixtures


@pytest.fixture
def cloud(project: Path, tmp_path: Path) -> Iterator[Cloud]:
    with make_cloud(project, tmp_path, SearchService()) as cloud:
        yield cloud


def test_first_run_fills_the_index_and_second_run_changes_nothing(cloud: Cloud) -> None:
    first = cloud.hook()
    docs = dict(cloud.documents)
    second = cloud.hook()

    assert (first.returncode, first.stderr) == (0, "")
    assert "5 sample documents -> Azure AI Search, index docs, vectors by e" in first.stdout
    assert "5 documents put" in first.stdout
    assert {doc["sourcefile"] for doc in docs.values()} >= {"plans/northwind_health_plus.pdf"}
    assert all(doc["embedding"] for doc in docs.values())
    assert "0 documents put (0 passages), 5 unchanged" in second.stdout
    assert cloud.documents == docs


def test_hook_waits_for_role_assignments_of_every_service(cloud: Cloud) -> None:
    cloud.search.plan += [FORBIDDEN, FORBIDDEN]
    cloud.model.plan += [error_response(401), error_response(404)]  # a new deployment, too
    done = cloud.hook()

    assert (done.returncode, done.stderr) == (0, "")
    assert [
        line.split()[3].rstrip(":") for line in done.stdout.splitlines() if "responds with" in line
    ] == [
        "401",
        "404",
        "403",
        "403",
    ]
    assert "5 documents put" in done.stdout


@dataclass
class FakeStorage(Server):
    """Blob storage with every sample that rejects the first requests."""

    refusing: int = 3

    def next_steps(self, request: RecordedRequest) -> list[Step]:
        if "comp=list" in request.path:
            none = b"<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>"
            message = f"Content-Type: application/xml\r\nContent-Length: {len(none)}"
            return [f"HTTP/1.1 200 X\r\n{message}\r\n\r\n".encode() + none]
        if request.method != "HEAD":
            return [b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n"]
        if self.refusing:
            self.refusing -= 1
            return FORBIDDEN
        name = unquote(request.path.partition("/files/")[2].partition("?")[0])
        mark = sha256((DOCUMENTS / name).read_bytes()).hexdigest()
        media_type = guess_media_type(name)
        headers = f"x-ms-meta-sha256: {mark}\r\nContent-Type: {media_type}\r\nContent-Length: 0"
        return [f"HTTP/1.1 200 X\r\n{headers}\r\n\r\n".encode()]


def test_rejected_upload_is_retried(cloud: Cloud) -> None:
    with cloud.listening(FakeStorage()) as storage:
        done = cloud.hook(AZURE_STORAGE_ENDPOINT=storage.url)

    assert (done.returncode, done.stderr) == (0, "")
    assert "Azure responds with 403" in done.stdout
    assert "3 documents put" in done.stdout
    assert "2 unchanged, 0 unreadable, 0 unsupported" in done.stdout


def test_missing_roles_end_with_instructions(cloud: Cloud) -> None:
    cloud.search.plan += [FORBIDDEN] * 200
    done = cloud.hook(longest=1)

    assert done.returncode == 1
    assert "Search Index Data Contributor" in done.stderr
    assert "continue with `azd up`, or with `azd hooks run postprovision`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("existing", ["", SEARCH_ID])
def test_certificates_that_python_does_not_trust_are_named(
    cloud: Cloud, existing: str, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    with manage(cloud, ResourceManager()) as url:
        outputs: dict[str, Any] = {
            "AZURE_EXISTING_SEARCH_ID_IN_USE": existing,
            "AZURE_RESOURCE_MANAGER_URL": url,
            "AZURE_INDEXER_ID": "person",
            "SSL_CERT_FILE": str(tmp_path / "other.pem"),
        }
        done = cloud.hook(**outputs)

    assert done.returncode == 1
    assert "Install Certificates.command" in done.stderr
    assert "trying again" not in done.stdout
    assert "continue with `azd up`" in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_sign_in_fails_at_once(cloud: Cloud) -> None:
    (cloud.home.folder / "az").unlink()
    done = cloud.hook()

    assert done.returncode == 1
    assert "azd auth login" in done.stderr
    assert "responds with" not in done.stdout


def test_interrupted_run_continues(cloud: Cloud) -> None:
    cloud.hook()
    fresh = dict(cloud.documents)
    cloud.search.indexes.clear()
    at = len(cloud.search.requests)
    process = subprocess.Popen(
        cloud.command(),
        cwd=cloud.project / "scripts",
        env=cloud.environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + TIMEOUT
    while not batches(cloud.search.requests[at:]) and time.monotonic() < until:
        time.sleep(0.001)
    cloud.search.plan += [[Exchange.stall]] * 50  # the service stalls
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=TIMEOUT)
    cloud.search.plan.clear()
    cloud.hook()

    assert process.returncode == 130
    assert message.startswith("Stopped. Continue with `azd up`, ")
    assert message.count("\n") == 1
    assert cloud.documents == fresh


def batches(requests: list[RecordedRequest]) -> list[RecordedRequest]:
    return [one for one in requests if "search.index" in one.path]


def test_samples_are_not_added_to_other_documents(cloud: Cloud) -> None:
    cloud.hook()
    docs = cloud.documents
    for key, doc in list(docs.items()):
        del docs[key]
        docs[key] = {**doc, "sourcefile": "mine.md"}
    before = dict(docs)
    done = cloud.hook()

    assert done.returncode == 0
    assert "other documents and none of the samples: it is not changed" in done.stdout
    assert docs == before


def test_hook_can_be_switched_off(cloud: Cloud) -> None:
    done = cloud.hook(AZURE_LOAD_SAMPLES="f", AZURE_LOCAL_SETTINGS="False")

    assert done.returncode == 0
    assert "`make index DOCS=path/to/documents`" in done.stdout
    assert cloud.search.requests == []
    assert not (cloud.project / "local.settings.json").exists()


def test_private_network_is_skipped_except_from_inside(cloud: Cloud) -> None:
    outside = cloud.hook(AZURE_VNET_IN_USE="true")
    at = len(cloud.search.requests)
    inside = cloud.hook(AZURE_VNET_IN_USE="true", AZURE_LOAD_SAMPLES="true")

    assert outside.returncode == 0
    assert "`azd env set AZURE_LOAD_SAMPLES true`" in outside.stdout
    assert at == 0
    assert "5 documents put" in inside.stdout


def test_hook_reads_what_was_deployed_not_what_was_set(cloud: Cloud) -> None:
    done = cloud.hook(AZURE_USE_VNET="yes", AZURE_VNET_IN_USE="false")
    allowed = cloud.hook(AZURE_VNET_IN_USE="true", AZURE_ALLOWED_IPS_IN_USE="203.0.113.7")

    assert "5 documents put" in done.stdout
    assert "virtual network" not in done.stdout + allowed.stdout


def manage(cloud: Cloud, manager: ResourceManager) -> AbstractContextManager[str]:
    return serve(manager, lambda tls: tls.load_cert_chain(cloud.home.folder / "server.pem"))


def test_existing_search_service_gets_a_role_and_no_documents(cloud: Cloud) -> None:
    manager = ResourceManager()
    with manage(cloud, manager) as url:
        outputs: dict[str, Any] = {
            "AZURE_EXISTING_SEARCH_ID_IN_USE": SEARCH_ID,
            "AZURE_RESOURCE_MANAGER_URL": url,
        }
        done = cloud.hook(**outputs, SERVICE_API_IDENTITY_PRINCIPAL_ID="app")

    assert (done.returncode, done.stderr) == (0, "")
    assert "app has it" in done.stdout
    assert "its index docs answers, and nothing is written to it" in done.stdout
    assert [body["principalId"] for body in manager.assignments.values()] == ["app"]
    assert cloud.search.indexes == {}


def test_samples_wait_for_roles_that_somebody_else_gives(cloud: Cloud) -> None:
    manager = ResourceManager(statuses=[403] * 4)
    with manage(cloud, manager) as url:
        outputs: dict[str, Any] = {
            "AZURE_EXISTING_OPENAI_ID_IN_USE": OPENAI_ID,
            "AZURE_RESOURCE_MANAGER_URL": url,
        }
        done = cloud.hook(**outputs, SERVICE_API_IDENTITY_PRINCIPAL_ID="a", AZURE_INDEXER_ID="me")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("az role assignment create") == 2
    assert "documents put" not in done.stdout
    assert cloud.search.indexes == {}


def test_existing_resource_that_is_not_there_is_named(cloud: Cloud) -> None:
    with manage(cloud, ResourceManager(statuses=[404])) as url:
        outputs: dict[str, Any] = {
            "AZURE_EXISTING_SEARCH_ID_IN_USE": SEARCH_ID,
            "AZURE_RESOURCE_MANAGER_URL": url,
        }
        done = cloud.hook(**outputs, SERVICE_API_IDENTITY_PRINCIPAL_ID="app")

    assert done.returncode == 1
    assert f"404 for {SEARCH_ID}: does it exist" in done.stderr
    assert "`azd hooks run postprovision`" in done.stderr


def test_settings_of_the_app_hold_on_the_laptop_but_for_secrets(cloud: Cloud) -> None:
    settings = {"AZURE_SEARCH_FIELDS": "own", "OPENAI_API_KEY": "@Microsoft.KeyVault(x)"}
    done = cloud.hook(AZURE_APP_SETTINGS=json.dumps(settings), AZURE_LOAD_SAMPLES="false")
    values = cloud.local()["Values"]

    assert (done.returncode, done.stderr) == (0, "")
    assert values["AZURE_SEARCH_FIELDS"] == "own"
    assert "@Microsoft" not in values.get("OPENAI_API_KEY", "")


def test_missing_azd_outputs_are_named(cloud: Cloud) -> None:
    done = cloud.hook(AZURE_SEARCH_ENDPOINT="", AZURE_OPENAI_ENDPOINT="")

    assert done.returncode == 1
    assert "no AZURE_SEARCH_ENDPOINT, AZURE_OPENAI_ENDPOINT" in done.stderr


def test_local_settings_do_not_affect_the_index(cloud: Cloud) -> None:
    cloud.own(AZURE_SEARCH_INDEX="mine", AZURE_SEARCH_FIELDS='{"content": "chunk"}')
    fields = '{"embedding": null}'
    done = cloud.hook(AZURE_SEARCH_FIELDS=fields, IDENTITY_ENDPOINT="http://127.0.0.1:9")

    assert (done.returncode, done.stderr) == (0, "")
    assert cloud.search.indexes.keys() == {"docs"}
    assert all(document["embedding"] for document in cloud.documents.values())
    assert cloud.search.indexes["docs"].definition["vectorSearch"]["vectorizers"] == []


def test_permissions_of_the_app_reach_the_index(cloud: Cloud) -> None:
    done = cloud.hook(AZURE_APP_SETTINGS='{"AZURE_SEARCH_PERMISSIONS": "user-token"}')

    assert (done.returncode, done.stderr) == (0, "")
    assert cloud.search.indexes["docs"].definition["permissionFilterOption"] == "enabled"
    assert all(document["oids"] == ["all"] for document in cloud.documents.values())


def test_azd_runs_the_tested_file(cloud: Cloud) -> None:
    done = subprocess.run(
        [sys.executable, str(cloud.project / "scripts" / "postprovision.py")],
        cwd=cloud.project / "scripts",
        env=cloud.environment({"AZURE_LOAD_SAMPLES": "0"}),
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "no sample documents are loaded" in done.stdout


def test_own_values_are_kept_and_written_ones_updated(cloud: Cloud) -> None:
    cloud.own(MEMORY_FILE="m.db", AZURE_OPENAI_CHAT_DEPLOYMENT="mine", AZURE_SEARCH_INDEX="")
    first = cloud.hook(AZURE_LOAD_SAMPLES="false")
    again = cloud.hook(
        AZURE_SEARCH_SEMANTIC_CONFIGURATION="",  # the ranker is off
        AZURE_LOAD_SAMPLES="false",
        AZURE_SEARCH_ENDPOINT="https://another.search.windows.net",
    )
    local = cloud.local()

    assert "keeps your own value of AZURE_OPENAI_CHAT_DEPLOYMENT" in first.stdout
    assert "keeps your own value of AZURE_OPENAI_CHAT_DEPLOYMENT" in again.stdout
    assert local["Values"]["AZURE_SEARCH_SEMANTIC_CONFIGURATION"] == ""
    assert local["Host"] == {"CORS": "http://mine"}
    assert local["Values"]["MEMORY_FILE"] == "m.db"
    assert local["Values"]["AZURE_OPENAI_CHAT_DEPLOYMENT"] == "mine"
    assert local["Values"]["AZURE_SEARCH_INDEX"] == "docs"
    assert local["Values"]["AZURE_SEARCH_ENDPOINT"] == "https://another.search.windows.net"


@pytest.mark.parametrize("left", [False, True])
def test_local_settings_are_readable_by_their_owner_alone(tmp_path: Path, left: bool) -> None:
    names = ("local.settings.json", ".azure/local.settings.written.json")
    if left:  # by a run that was killed
        (tmp_path / "local.settings.json.part").write_text("{")
        (tmp_path / "local.settings.json.part").chmod(0o644)

    list(write_local_settings(tmp_path, {"AZURE_SEARCH_INDEX": "docs"}))

    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names]
    assert modes == [0o600, 0o600]


UNTOUCHED = {
    "comments in it": '{ "Values": {} } // mine',
    "encrypted": '{"IsEncrypted": true, "Values": {"x": "CfDJ8"}}',
    "a list": "[]",
}


@pytest.mark.parametrize("kind", UNTOUCHED)
def test_unreadable_local_settings_do_not_stop_the_hook(cloud: Cloud, kind: str) -> None:
    path = cloud.project / "local.settings.json"
    path.write_text(UNTOUCHED[kind])
    done = cloud.hook(AZURE_LOAD_SAMPLES="false")

    assert (done.returncode, done.stderr) == (0, "")
    assert "local.settings.json is not changed" in done.stdout
    assert "AZURE_SEARCH_ENDPOINT" in done.stdout
    assert path.read_text() == UNTOUCHED[kind]


@needs_azurite
def test_make_run_uses_azure_after_the_hook(cloud: Cloud, tmp_path: Path) -> None:
    with azurite(cloud.home) as storage:
        done = cloud.hook(AZURE_STORAGE_ENDPOINT=storage)
        bare = {"SSL_CERT_FILE": cloud.home.ca, "PATH": cloud.values["PATH"], "INDEX_FILE": ""}
        line = [sys.executable, "dev_server.py"]
        with (
            run_server("dev", tmp_path, bare, app=cloud.project, line=line) as server,
            server.client() as client,
        ):
            health = client.get("/health").json()
            response = get_answer(server)
            plan = client.get("/content/plans/northwind_health_plus.pdf")

    assert (done.returncode, done.stderr) == (0, "")
    assert health["index"] == "Azure AI Search"
    assert (health["model"], health["files"]) == ("gpt-4o", "blobs")
    assert response.status_code == 200, f"{response.text}\n{server.log}"
    assert plan.content == (DOCUMENTS / "plans" / "northwind_health_plus.pdf").read_bytes()
