"""What an app with uploads in Azure needs at its start."""

from __future__ import annotations

import pytest

from shared.bootstrap.build import build
from shared.bootstrap.clients import Clients
from shared.bootstrap.uploads import make_uploads
from shared.protocols.upload_form import UploadsConfig
from shared.retrieval.azure_search.retriever import AzureSearchRetriever
from shared.settings import SettingsError, read_settings
from shared.uploads.blob.store import BlobUploads

SETTINGS = {
    "CHAT_MODEL": "demo",
    "WEBSITE_AUTH_ENABLED": "true",
    "TRUST_SIGN_IN_HEADERS": "true",
    "AZURE_SEARCH_ENDPOINT": "https://mine.search.windows.net",
    "AZURE_SEARCH_INDEX": "documents",
    "UPLOADS": "on",
    "AZURE_UPLOADS_ENDPOINT": "https://mine.blob.core.windows.net",
    "AZURE_UPLOADS_QUEUE_ENDPOINT": "https://mine.queue.core.windows.net",
    "AZURE_UPLOADS_INDEX": "documents-uploads",
    "AZURE_FUNCTIONS_ENVIRONMENT": "Production",
}


def test_uploads_in_azure_need_no_package_that_reads_documents() -> None:
    app = build(read_settings(SETTINGS))

    assert isinstance(app.config(UploadsConfig).uploads, BlobUploads)


def test_index_of_uploads_has_the_fields_of_the_app_whatever_those_of_the_documents_are() -> None:
    names = '{"content": "chunk", "oids": "users"}'
    clients = Clients(read_settings({**SETTINGS, "AZURE_SEARCH_FIELDS": names}))
    parts = make_uploads(clients, None)

    assert parts is not None
    assert isinstance(parts.passages, AzureSearchRetriever)
    assert parts.passages.index.name == "documents-uploads"
    assert (parts.passages.fields.content, parts.passages.fields.oids) == ("content", "oids")


def test_uploads_without_sign_in_are_refused() -> None:
    with pytest.raises(SettingsError, match="needs sign-in"):
        build(read_settings({**SETTINGS, "WEBSITE_AUTH_ENABLED": ""}))


def test_uploads_in_the_index_of_the_documents_are_refused() -> None:
    with pytest.raises(SettingsError, match="AZURE_UPLOADS_INDEX must not be AZURE_SEARCH_INDEX"):
        build(read_settings({**SETTINGS, "AZURE_UPLOADS_INDEX": "documents"}))


@pytest.mark.parametrize(
    "name", ["AZURE_UPLOADS_QUEUE_ENDPOINT", "AZURE_UPLOADS_INDEX", "AZURE_SEARCH_ENDPOINT"]
)
def test_missing_setting_is_named(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is required"):
        read_settings({**SETTINGS, name: ""})


def test_token_never_goes_out_without_tls() -> None:
    for name in ("AZURE_UPLOADS_ENDPOINT", "AZURE_UPLOADS_QUEUE_ENDPOINT"):
        with pytest.raises(SettingsError, match=f"{name} must be a URL such as https://host"):
            read_settings({**SETTINGS, name: "http://mine.example.com"})


def test_laptop_without_the_settings_is_told_of_them() -> None:
    values = {**SETTINGS, "AZURE_UPLOADS_ENDPOINT": ""}
    with pytest.raises(SettingsError, match="AZURE_UPLOADS_ENDPOINT"):
        build(read_settings(values))
