"""The deployment package: its files, its size, and that it runs when unpacked."""

from __future__ import annotations

import json
import os
import re
import shlex
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
import trustme

from tests.support.azure_cli import AZ, write_cli
from tests.support.isolation import system_trust
from tests.support.packaging import (
    PACKAGE_LIST,
    clone_project,
    copy_files,
    list_package,
    needs_git,
    referenced_files,
)
from tests.support.run_fakes import QuotingModel, SampleSearch
from tests.support.servers import ROOT, get_answer, run_server
from tests.support.upstream import run_upstream

HOST = shlex.split(os.environ.get("FUNCTIONS_HOST", ""))
# Files that developers and azd leave in a project's folder.
LEFTOVER_FILES = """
.venv/pyvenv.cfg .venv/lib/x.py api_env/pyvenv.cfg scripts/scripts_env/pyvenv.cfg .env
.azure/mine/.env .azure/config.json local.settings.json shared/local.settings.json
__pycache__/function_app.cpython-313.pyc shared/__pycache__/rag.cpython-313.pyc
shared/models/__pycache__/x.pyc tests/clients/node_modules/x/index.js node_modules/x/index.js
.pytest_cache/x .mypy_cache/x .ruff_cache/x .hypothesis/x .coverage .idea/x .DS_Store
shared/.DS_Store index.db.lock index.db.new index.db.part index.db.part-journal .git/config
index.db-journal memory.db memory.db-wal memory.db-shm own.db own.db.part shared/data/index.db
"""
# The settings of the app in infra/main.bicep, with values of their kind.
BY_BICEP = {
    "AzureWebJobsStorage__accountName": "sthost",
    "AzureWebJobsStorage__blobServiceUri": "https://127.0.0.1:1",
    "AzureWebJobsStorage__credential": "managedidentity",
    "AzureWebJobsStorage__clientId": "00000000-0000-0000-0000-000000000000",
    "APPLICATIONINSIGHTS_CONNECTION_STRING": "InstrumentationKey=0;IngestionEndpoint=https://x/",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": "ClientId=0;Authorization=AAD",
    "AZURE_CLIENT_ID": "00000000-0000-0000-0000-000000000000",
    "AZURE_SEARCH_ENDPOINT": "https://127.0.0.1:1",
    "AZURE_SEARCH_INDEX": "docs",
    "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "default",
    "AZURE_OPENAI_ENDPOINT": "https://127.0.0.1:1",
    "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "embedding",
    "AZURE_STORAGE_ENDPOINT": "https://127.0.0.1:1",  # not used for an answer
    "AZURE_STORAGE_CONTAINER": "documents",
    "AZURE_COSMOS_ENDPOINT": "https://127.0.0.1:1",
    "AZURE_COSMOS_DATABASE": "chat",
    "AZURE_COSMOS_CONTAINER": "memory",
    "MEMORY_DAYS": "90",
    "FEEDBACK_COPIES": "on",
    "AZURE_UPLOADS_ENDPOINT": "https://127.0.0.1:1",
    "AZURE_UPLOADS_QUEUE_ENDPOINT": "https://127.0.0.1:1",
    "AZURE_UPLOADS_INDEX": "docs-uploads",
    "CALLERS": "keys",
    "ALLOWED_ORIGINS": "https://chat.example.com",
}
MAIN = ROOT / "infra" / "main.bicep"
# The size of the deployed distributions affects every cold start.
MOST_MEGABYTES = 130
FROM_DEVELOPMENT = re.compile(
    r"pytest|hypothesis|httpx$|ruff|mypy|types-|rs.bpe|azure-functions-runtime|trustme|pathspec|"
    r"pypdf|pillow|mammoth|python-pptx|openpyxl|beautifulsoup4|lxml|semantic-text|tqdm|numpy"
)

needs_host = pytest.mark.skipif(not HOST, reason="FUNCTIONS_HOST is not set; it installs a lot")
pytestmark = needs_git


@pytest.fixture(scope="module")
def used_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with the files of a developer's work."""
    folder = clone_project(tmp_path_factory.mktemp("clone") / "api")
    for name in LEFTOVER_FILES.split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return folder


def test_package_matches_the_list(used_clone: Path) -> None:
    listed = set(PACKAGE_LIST.read_text("utf-8").splitlines())
    differing = sorted(listed ^ set(list_package(used_clone)))

    assert not differing, (
        "deployed, but not listed, or the other way: if it is meant, run "
        f"`python -m tests.support.packaging > {PACKAGE_LIST.relative_to(ROOT)}`"
    )


def test_package_has_every_referenced_requirements_file(used_clone: Path) -> None:
    needed = set(referenced_files(used_clone, "requirements.txt"))

    assert needed == {"requirements.txt", "constraints.txt"}
    assert needed <= set(list_package(used_clone))


@pytest.fixture
def indexed_clone(used_clone: Path) -> Iterator[Path]:
    """A clone with an index, and the copy that a packaging left which was ended."""
    for name, text in (("index.db", "mine"), ("index.sqlite", "old")):
        (used_clone / name).write_text(text)
    yield used_clone
    for name in ("index.db", "index.sqlite"):
        (used_clone / name).unlink(missing_ok=True)


def run_hook(folder: Path, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a hook as azd does: in the folder of the service, with a Python without libraries."""
    command = [sys.executable, "-I", "-S", str(folder / "scripts" / "package" / name)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("value", ["", "false"])
def test_index_is_not_deployed_unless_a_variable_asks(indexed_clone: Path, value: str) -> None:
    done = run_hook(indexed_clone, "prepackage.py", AZURE_DEPLOY_INDEX=value)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [name for name in list_package(indexed_clone) if name.startswith("index.")] == []


def test_index_is_deployed_if_a_variable_asks(indexed_clone: Path) -> None:
    run_hook(indexed_clone, "prepackage.py", AZURE_DEPLOY_INDEX="true")
    packaged, text = list_package(indexed_clone), (indexed_clone / "index.sqlite").read_text()
    done = run_hook(indexed_clone, "postpackage.py", AZURE_DEPLOY_INDEX="true")

    assert [name for name in packaged if name.startswith("index.")] == ["index.sqlite"]
    assert text == "mine"
    assert (done.returncode, done.stderr) == (0, "")
    assert not (indexed_clone / "index.sqlite").exists()
    assert (indexed_clone / "index.db").read_text() == "mine"


def test_missing_index_that_a_variable_asks_for_ends_the_deployment(indexed_clone: Path) -> None:
    (indexed_clone / "index.db").unlink()
    done = run_hook(indexed_clone, "prepackage.py", AZURE_DEPLOY_INDEX="true")

    assert done.returncode == 1
    assert "make index" in done.stderr
    assert "index.sqlite" not in list_package(indexed_clone)


def test_funcignore_has_no_negation() -> None:
    lines = (ROOT / ".funcignore").read_text("utf-8").splitlines()

    assert [line for line in lines if line.startswith(("!", "/*"))] == []


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the deployed distributions and the worker's library."""
    folder = tmp_path_factory.mktemp("deployed")
    maker = HOST[0] if Path(HOST[0]).name.startswith("python") else sys.executable
    subprocess.run([maker, "-m", "venv", str(folder)], check=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    requirements = ["-r", str(ROOT / "requirements.txt")]
    subprocess.run([*install, *requirements], check=True, env=system_trust(os.environ))
    return python


def installed(python: Path) -> set[str]:
    listing = [str(python), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    result = subprocess.run(listing, check=True, capture_output=True)
    return {one["name"].lower() for one in json.loads(result.stdout)}


@needs_host
def test_deployed_distributions_are_few_and_without_development_tools(python: Path) -> None:
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    files = [path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    size = sum(path.stat().st_size for path in files if "pip" not in path.parts) / 1e6
    names = installed(python)
    print(f"{len(names)} distributions, {size:.0f} MB without bytecode")

    assert {"azure-functions", "openai", "azure-identity", "pyyaml"} <= names
    assert {name for name in names if FROM_DEVELOPMENT.match(name)} == set()
    assert size < MOST_MEGABYTES


@pytest.fixture
def unpacked(used_clone: Path, tmp_path: Path) -> Path:
    """The package, zipped, and unpacked in another folder."""
    with ZipFile(tmp_path / "package.zip", "w") as package:
        for name in list_package(used_clone):
            package.write(used_clone / name, name)
    with ZipFile(tmp_path / "package.zip") as package:
        package.extractall(tmp_path / "home site wwwroot")
    return tmp_path / "home site wwwroot"


@pytest.fixture
def azure_settings(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The settings of the app in Azure, with fakes of the services."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    write_cli(tmp_path, "azd", None)
    write_cli(tmp_path, "az", AZ)
    searching = SampleSearch()
    with run_upstream(searching, tls) as search, run_upstream(QuotingModel()) as model:
        yield {
            **BY_BICEP,
            "AZURE_SEARCH_ENDPOINT": search.url,
            "AZURE_OPENAI_ENDPOINT": model.url,
            "INDEX_FILE": "",
            "SSL_CERT_FILE": str(tmp_path / "ca.pem"),
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        }
    searching.index.close()


@pytest.mark.skipif(not MAIN.exists(), reason="there is no infra/main.bicep")
def test_tested_settings_are_those_of_bicep() -> None:
    message = re.search(
        r"^    settings: union\(appSettings, (?:\w+, )*\{\n(.*?)^    \}\)",
        MAIN.read_text("utf-8"),
        re.DOTALL | re.M,
    )
    assert message is not None
    names = re.findall(r"^      (\w+):", message[1], re.MULTILINE)

    assert set(names) == BY_BICEP.keys()


@needs_host
def test_unpacked_package_answers(
    unpacked: Path, azure_settings: dict[str, str], python: Path, tmp_path: Path
) -> None:
    runtime = next(
        line
        for line in (ROOT / "requirements-dev.txt").read_text().splitlines()
        if line.startswith("azure-functions-runtime")
    )
    install = [str(python), "-m", "pip", "install", "--quiet", runtime]
    subprocess.run(install, check=True, env=system_trust(os.environ))
    path = f"{python.parent}{os.pathsep}{azure_settings['PATH']}"
    settings = {**azure_settings, "PATH": path, "VIRTUAL_ENV": str(python.parent.parent)}
    host = [str(python), *HOST[1:]] if Path(HOST[0]).name.startswith("python") else HOST
    with run_server("functions", tmp_path, settings, app=unpacked, line=host) as server:
        response = get_answer(server)

    assert response.status_code == 200, f"{response.text}\n{server.log}"
    assert "[plans/northwind_health_plus.pdf#page=" in response.json()["message"]["content"]


def test_deployed_distributions_cover_the_imports(
    unpacked: Path, azure_settings: dict[str, str], tmp_path: Path
) -> None:
    copy_files(ROOT, ["dev_server.py"], unpacked)
    line = [sys.executable, "dev_server.py"]
    with run_server("dev", tmp_path, azure_settings, app=unpacked, line=line) as server:
        response = get_answer(server)

    assert response.status_code == 200, f"{response.text}\n{server.log}"
    assert "[plans/northwind_health_plus.pdf#page=" in response.json()["message"]["content"]
