"""The search, the memory and the pipelines of OpenSearch."""

from __future__ import annotations

from collections.abc import Iterator

from bench.requests.endpoint import CONVERSATION, INTERACTION, Endpoint
from bench.schemas import ANY, TEXT, array, const, either, fields, schema_of
from shared.protocols.opensearch import generation, memory, pipelines

ML = "/_plugins/_ml/memory"
WITHOUT_BODY = ("/_plugins/_ml/{*path}", f"{ML}/_search", f"{ML}/{{id}}/_search")
OTHER_MODELS = (memory.Paging,)  # the parameters of a query


def list_endpoints() -> Iterator[Endpoint]:
    """The search, the memory and the pipelines of OpenSearch."""
    names = array(TEXT)
    question = fields(generative_qa_parameters=schema_of(generation.Question))
    source = either(names, fields(includes=names, excludes=names))
    search = fields(query=fields(match=fields(text=TEXT)), ext=question)
    search = {**search, "properties": {**search["properties"], "_source": source}}
    for route in ("/_search", "/{index}/_search"):
        yield Endpoint(route, search, path="documents" if "index" in route else "")
    turn = {**schema_of(memory.MemoryBody), "required": ["input"]}
    info = {**schema_of(memory.ObjectInfoBody), "required": ["additional_info"]}
    yield Endpoint(f"{ML}/conversation", schema_of(memory.MemoryBody))
    yield Endpoint(f"{ML}/conversation/{{id}}", turn, path=CONVERSATION)
    yield Endpoint(ML, schema_of(memory.MemoryBody))
    named = {**schema_of(memory.MemoryBody), "required": ["name"]}
    yield Endpoint(f"{ML}/{{id}}", named, method="PUT", path=CONVERSATION)
    yield Endpoint(f"{ML}/{{id}}/messages", info, path=CONVERSATION)
    yield Endpoint(f"{ML}/message/{{id}}", info, method="PUT", path=INTERACTION)
    model = {"model_id": const("fake"), "context_field_list": array(TEXT, minItems=1)}
    processor = fields(**{pipelines.RAG: schema_of(pipelines.Pipeline, **model)})
    body = fields(response_processors=array(processor))
    yield Endpoint("/_search/pipeline/{name}", body, method="PUT", path="p")
    body = fields(persistent=ANY)
    yield Endpoint("/_cluster/settings", body, method="PUT")
