"""Makes the store of uploads: a folder on a laptop, a container in Azure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from shared.bootstrap.blob_uploads import NO_ENDPOINT, UploadsCheck, make_blob_uploads
from shared.bootstrap.clients import Clients
from shared.bootstrap.search import make_embedding
from shared.files.base import Files
from shared.protocols.health import Component
from shared.retrieval.base import DocumentRetriever, Retriever
from shared.settings import MIB, SHARED_FOLDER, Settings, SettingsError
from shared.uploads.base import UploadLimits, Uploads

NO_READER = (
    "UPLOADS=on needs the packages that read documents: `make run UPLOADS=on` installs them, or "
    "`pip install -r requirements-ingest.txt`"
)
SAME_INDEX = "UPLOADS_FOLDER must not be the folder of INDEX_FILE: it has an index of its own"
NOT_HERE = "UPLOADS=on works on a laptop, with the embedded index (INDEX_FILE)"


@dataclass(frozen=True, slots=True)
class UploadParts:
    """The store of uploads and the index of their passages."""

    store: Uploads
    passages: DocumentRetriever
    local_owner: str | None  # owns what an unknown user uploads
    check: Component | None = None  # for `/health`

    def include(self, retriever: Retriever, files: Files | None) -> tuple[Retriever, Files]:
        """Return a retriever and a store of files that have the uploads, too."""
        from shared.uploads.files import UploadFiles
        from shared.uploads.retriever import UploadsRetriever

        both = UploadsRetriever(retriever, self.passages, self.store, self.local_owner)
        return both, UploadFiles(files, self.store)


def make_uploads(clients: Clients, local_owner: str | None) -> UploadParts | None:
    """Make the store of uploads; None if the settings have none. Raises SettingsError."""
    settings = clients.settings
    if settings.uploads != "on":
        return None
    limits = UploadLimits(
        settings.max_upload_megabytes * MIB, settings.max_uploads, settings.max_uploads_per_day
    )
    if settings.azure_uploads_endpoint:
        store, passages = make_blob_uploads(clients, limits)
        return UploadParts(store, passages, local_owner, UploadsCheck(store, passages))
    return _make_folder_uploads(clients, limits, local_owner)


def _make_folder_uploads(
    clients: Clients, limits: UploadLimits, local_owner: str | None
) -> UploadParts:
    """Make the store of a laptop. Raises SettingsError."""
    settings = clients.settings
    _check_place(settings)
    from shared.retrieval.sqlite.retriever import SqliteRetriever
    from shared.uploads.folder.reader import UploadReader, run_process
    from shared.uploads.folder.records import INDEX
    from shared.uploads.folder.store import FolderUploads

    folder = uploads_folder(settings)
    if (folder / INDEX).resolve() == (SHARED_FOLDER.parent / settings.index_file).resolve():
        raise SettingsError((SAME_INDEX,))
    reader = UploadReader(partial(run_process, SHARED_FOLDER.parent, folder))
    if folder.is_dir():
        reader.wake()  # continues what a killed process has left
    store = FolderUploads(folder, limits, reader.wake)
    passages = SqliteRetriever(folder / INDEX, make_embedding(clients))
    return UploadParts(store, passages, local_owner)


def uploads_folder(settings: Settings) -> Path:
    """The folder of uploads, which may not exist."""
    return SHARED_FOLDER.parent / settings.uploads_folder


def _check_place(settings: Settings) -> None:
    """Raise SettingsError if uploads cannot be kept or read here."""
    embedded = not (settings.retriever or settings.azure_search_endpoint)
    if not settings.on_laptop or not embedded:
        raise SettingsError((NOT_HERE, NO_ENDPOINT))
    if any(find_spec(name) is None for name in ("ingest", "pypdf", "lxml")):
        raise SettingsError((NO_READER,))
