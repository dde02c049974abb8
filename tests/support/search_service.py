"""A strict fake of Azure AI Search that takes documents, and answers the chat from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ingest.setup import IngestOptions, build_index_spec
from ingest.targets.azure_search.index_update import build_index
from shared.settings import read_settings
from tests.support.fake_index import FakeIndex, validate_definition
from tests.support.fake_search import PATH, FakeSearch
from tests.support.fake_service import SEARCH
from tests.support.ingest_azure import Filled
from tests.support.upstream import RecordedRequest, Step, error_response


@dataclass
class SearchService(Filled):
    """A service with indexes. The indexes in `refused` answer 403 to everybody."""

    refused: set[str] = field(default_factory=set)

    def search(self, name: str, request: RecordedRequest) -> list[Step]:
        """Answer a query of the reader, or one of the chat."""
        if name in self.refused:
            return error_response(403, code="Forbidden")
        body = request.body
        if not body.keys() - SEARCH and body["search"] == "*" and "orderby" in body:
            return super().search(name, request)
        docs = [{"image": None, **doc} for doc in self.indexes[name].docs.values()]
        chat = FakeSearch(docs=docs)
        _, _, version = request.path.partition("?")
        query = replace(request, path=f"{PATH.partition('?')[0]}?{version}")
        return chat.refusal(query) or chat.respond(query)


def make_index() -> FakeIndex:
    """An index with the fields that the hook after provisioning gives it."""
    settings = read_settings({"AZURE_SEARCH_ENDPOINT": "https://a", "AZURE_SEARCH_INDEX": "a"})
    spec = build_index_spec(settings, 0, IngestOptions(folder=None))
    return FakeIndex(validate_definition(dict(build_index(spec))))
