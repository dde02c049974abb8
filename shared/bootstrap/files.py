"""Makes the store of the files behind citations."""

from __future__ import annotations

from shared.bootstrap.clients import Clients
from shared.files.base import Files
from shared.retrieval.base import Retriever
from shared.settings import SHARED_FOLDER, SettingsError


def make_files(clients: Clients, retriever: Retriever) -> Files | None:
    """Make the file store of citations; None without one. Raises SettingsError."""
    settings = clients.settings
    if settings.azure_storage_endpoint:
        files: Files = clients.blob_files
        return files
    if settings.documents_path:
        return _make_folder_files(settings.documents_path)
    if settings.index_file:
        return _make_indexed_files(retriever)
    return None


def _make_folder_files(path: str) -> Files:
    """Make the store of DOCUMENTS_PATH, relative to the app's folder. Raises SettingsError."""
    from shared.files.folder import FolderFiles

    folder = SHARED_FOLDER.parent / path
    if not folder.is_dir():
        raise SettingsError(("DOCUMENTS_PATH must be a folder that exists",))
    return FolderFiles(folder)


def _make_indexed_files(retriever: Retriever) -> Files | None:
    """Make the store of the folder that the SQLite index was made from."""
    if not hasattr(type(retriever), "documents"):  # another one: nothing of SQLite is imported
        return None
    from shared.files.folder import IndexFolderFiles
    from shared.retrieval.sqlite.retriever import SqliteRetriever

    if not isinstance(retriever, SqliteRetriever):
        return None
    return IndexFolderFiles(lambda: retriever.documents)
