"""OpenSearch's own Python client against the running app: both ages, search and pipeline."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opensearchpy import (
    AuthenticationException,
    AuthorizationException,
    NotFoundError,
    OpenSearch,
    RequestError,
    TransportError,
)

from tests.support.azure_cli import AZ, write_cli
from tests.support.fake_cosmos import FakeCosmos, run_cosmos
from tests.support.servers import COMMAND_MODEL, ROOT, SIGN_IN, Server, run_server

OLD = "/_plugins/_ml/memory/conversation"
DEFINITION = {
    "response_processors": [
        {
            "retrieval_augmented_generation": {
                "tag": "openai_pipeline_demo",
                "description": "Demo pipeline Using OpenAI Connector",
                "model_id": "demo",
                "context_field_list": ["text"],
                "system_prompt": "You are a helpful assistant",
                "user_instructions": "Generate a concise and informative answer",
            }
        }
    ]
}
QUESTION = "What does the annual deductible of Northwind Standard come to?"


def client(server: Server, **more: Any) -> Any:
    return OpenSearch(server.url, **({"timeout": 60, "max_retries": 0} | more))


def person(name: str, *roles: str) -> dict[str, str]:
    """The headers of the platform's sign-in."""
    claims = {"claims": [{"typ": "roles", "val": role} for role in roles]}
    principal = base64.b64encode(json.dumps(claims).encode()).decode()
    return {"x-ms-client-principal-id": name, "x-ms-client-principal": principal}


@pytest.fixture(scope="module")
def laptop(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app as it is on a laptop: the demo model, the samples, a memory in a file."""
    folder = tmp_path_factory.mktemp("laptop")
    with run_server(kind, folder, {"MEMORY_FILE": str(folder / "memory.db")}) as running:
        yield running


@pytest.fixture(scope="module")
def cloud(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app where people sign in."""
    folder = tmp_path_factory.mktemp("cloud")
    settings = {"MEMORY_FILE": str(folder / "memory.db"), **SIGN_IN, **COMMAND_MODEL}
    settings |= {"WEBSITE_SITE_NAME": "chat", "CALLERS": "signed-in"}
    with run_server(kind, folder, settings) as running:
        yield running


@pytest.mark.parametrize("compressed", [False, True])
def test_paths_of_the_specification(laptop: Server, compressed: bool) -> None:
    with client(laptop, http_compress=compressed) as search:
        assert search.ping() is True
        created = search.http.post(OLD, body={"name": "Example conversation"})
        turn = {"input": "q", "prompt_template": "t\n", "response": "a", "origin": "o"}
        ids = [
            search.http.post(f"{OLD}/{created['conversation_id']}", body=turn)["interaction_id"]
            for _ in range(4)
        ]
        inside = search.http.get(
            f"{OLD}/{created['conversation_id']}", params={"max_results": 3, "next_token": 0}
        )
        (newest,) = search.http.get(OLD, params={"max_results": 1})["conversations"]
        gone = search.http.delete(f"{OLD}/{created['conversation_id']}")
        with pytest.raises(NotFoundError) as missing:
            search.http.get(f"{OLD}/{created['conversation_id']}")

    assert [it["interaction_id"] for it in inside["interactions"]] == ids[:0:-1]
    assert inside["next_token"] == 3
    assert newest["name"] == "Example conversation"
    assert gone == {"success": True}
    assert missing.value.error == "resource_not_found_exception"


def test_typed_methods_of_2_12(laptop: Server) -> None:
    with client(laptop) as search:
        ml = search.plugins.ml
        memory = ml.create_memory(body={"name": "first"})["memory_id"]
        info = {"suggestion": "api.openai.com"}
        body = {"input": "one", "response": "two", "additional_info": info}
        message = ml.create_message(memory_id=memory, body=body)["message_id"]
        ml.update_memory(memory_id=memory, body={"name": "second"})
        ml.update_message(message_id=message, body={"additional_info": {"liked": True}})
        item = ml.get_memory(memory_id=memory)
        (listed,) = ml.get_all_messages(memory_id=memory)["messages"]
        memories = ml.get_all_memories()["memories"]

        assert item["name"] == "second"
        assert item in memories
        assert listed == ml.get_message(message_id=message)
        assert (listed["response"], listed["additional_info"]) == ("two", {"liked": True})
        calls: list[Callable[[], Any]] = [
            lambda: ml.search_memory(body={"query": {"match_all": {}}}),
            lambda: ml.search_message(memory_id=memory, body={"query": {"match_all": {}}}),
            lambda: ml.get_message_traces(message_id=message),
            lambda: ml.register_model(body={"name": "x"}),
            lambda: ml.get_task(task_id="x"),
            lambda: ml.create_connector(body={}),
        ]
        for refused in calls:
            with pytest.raises(TransportError) as failure:
                refused()
            assert (failure.value.status_code, failure.value.error) == (
                501,
                "unsupported_operation_exception",
            )
        assert ml.delete_memory(memory_id=memory) == {"success": True}
        with pytest.raises(NotFoundError):
            ml.delete_memory(memory_id=memory)


def test_tutorial_of_the_specification(laptop: Server) -> None:
    features = {"plugins.ml_commons.rag_pipeline_feature_enabled": "true"}
    with client(laptop) as search:
        assert search.cluster.put_settings(body={"persistent": features})["acknowledged"] is True
        search.search_pipeline.put(id="rag", body=DEFINITION)
        assert search.search_pipeline.get(id="rag") == {"rag": DEFINITION}
        memory = search.plugins.ml.create_memory()["memory_id"]

        def answered(question: str) -> Any:
            parameters = {"llm_question": question, "memory_id": memory, "context_size": 5}
            return search.search(
                index="documents",
                body={
                    "query": {"match": {"text": question}},
                    "size": 5,
                    "_source": ["text", "sourcepage"],
                    "ext": {"generative_qa_parameters": parameters},
                },
                search_pipeline="rag",
            )

        first, second = answered(QUESTION), answered("And that of Health Plus?")
        stored = search.plugins.ml.get_all_messages(memory_id=memory)["messages"]
        search.search_pipeline.delete(id="rag")
        with pytest.raises(NotFoundError):
            search.search_pipeline.get(id="rag")

    answer = first["ext"]["retrieval_augmented_generation"]
    assert "$1,500" in answer["answer"]
    assert len(first["hits"]["hits"]) == 5
    assert first["hits"]["hits"][0]["_source"].keys() == {"text", "sourcepage"}
    assert [it["input"] for it in stored] == [QUESTION, "And that of Health Plus?"]
    assert stored[0]["message_id"] == answer["message_id"]
    assert stored[1]["response"] == second["ext"]["retrieval_augmented_generation"]["answer"]
    assert stored[0]["origin"] == "retrieval_augmented_generation"


def test_search_without_index_and_of_an_unknown_index(laptop: Server) -> None:
    with client(laptop) as search:
        result = search.search(body={"query": {"query_string": {"query": "deductible"}}}, size=2)
        with pytest.raises(NotFoundError) as other:
            search.search(index="qa_demo", body={"query": {"match": {"text": "deductible"}}})
        with pytest.raises(RequestError) as form:
            search.search(index="documents", body={"query": {"bool": {}}})

    assert result["hits"]["total"]["value"] == 2
    assert other.value.error == "index_not_found_exception"
    assert form.value.error == "parsing_exception"


def test_failing_model_is_not_retried_by_the_client(cloud: Server) -> None:
    anna = person("anna")
    with client(cloud, headers=anna, max_retries=3) as search:
        memory = search.plugins.ml.create_memory()["memory_id"]
        got = search.search(
            index="documents",
            body={
                "query": {"match": {"text": "deductible"}},
                "ext": {
                    "generative_qa_parameters": {
                        "llm_question": "say half; fail with outage",
                        "conversation_id": memory,
                    }
                },
            },
        )
        stored = search.plugins.ml.get_all_messages(memory_id=memory)

    assert got["ext"]["retrieval_augmented_generation"].keys() == {"error"}
    assert got["hits"]["hits"]
    assert stored == {"messages": []}


@pytest.fixture(scope="module")
def account() -> Iterator[FakeCosmos]:
    with run_cosmos() as fake:
        yield fake


@pytest.fixture(scope="module")
def stored(
    kind: str, account: FakeCosmos, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The app over Cosmos DB, where people sign in, with an identity that a tool gives."""
    folder = tmp_path_factory.mktemp("stored")
    write_cli(folder, "az", AZ)
    write_cli(folder, "azd", None)
    settings = {
        "AZURE_COSMOS_ENDPOINT": account.url,
        "MEMORY_DAYS": "30",
        "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
        **SIGN_IN,
    }
    with run_server(kind, folder, settings) as running:
        yield running


def test_conversation_is_stored_in_cosmos_db(stored: Server, account: FakeCosmos) -> None:
    account.partitions.clear()  # of another kind of server
    anna, ben = (client(stored, headers=person(name)) for name in ("anna", "ben"))
    with anna, ben:
        memory = anna.plugins.ml.create_memory(body={"name": "kept"})["memory_id"]
        got = anna.search(
            body={
                "size": 3,
                "ext": {
                    "generative_qa_parameters": {"llm_question": QUESTION, "memory_id": memory}
                },
            }
        )
        (interaction,) = anna.plugins.ml.get_all_messages(memory_id=memory)["messages"]
        with pytest.raises(NotFoundError):
            ben.plugins.ml.get_memory(memory_id=memory)
        items = [item for item in account.items if item["owner"] == "user:anna"]
        anna.plugins.ml.delete_memory(memory_id=memory)
    with stored.client() as plain:
        health = plain.get("/health").json()
        chat = plain.post(
            "/chat",
            headers=person("anna"),
            json={
                "messages": [{"role": "user", "content": QUESTION}],
                "sessionState": {"conversation_id": None},
            },
        ).json()

    assert "$1,500" in got["ext"]["retrieval_augmented_generation"]["answer"]
    assert interaction["input"] == QUESTION
    assert all(0 < item["ttl"] <= 30 * 86400 + 1 for item in items)
    assert (health["status"], health["memory"]) == ("ok", "Azure Cosmos DB")
    remaining = [item for item in account.items if item["owner"] == "user:anna"]
    conversation = chat["sessionState"]["conversation_id"]
    assert {item["conversation"] or item["id"] for item in remaining} == {conversation}
    assert [item["input"] for item in remaining if "input" in item] == [QUESTION]
    assert QUESTION not in stored.log


def test_users_cannot_see_each_other(cloud: Server) -> None:
    anna, ben = (client(cloud, headers=person(name)) for name in ("anna-2", "ben-2"))
    with anna, ben, client(cloud) as nobody:
        mine = anna.plugins.ml.create_memory(body={"name": "private"})["memory_id"]
        interaction = anna.plugins.ml.create_message(memory_id=mine, body={"input": "secret"})
        assert ben.plugins.ml.get_all_memories() == {"memories": []}
        calls: list[Callable[[], Any]] = [
            lambda: ben.plugins.ml.get_memory(memory_id=mine),
            lambda: ben.plugins.ml.get_all_messages(memory_id=mine),
            lambda: ben.plugins.ml.get_message(message_id=interaction["message_id"]),
            lambda: ben.plugins.ml.create_message(memory_id=mine, body={"input": "x"}),
            lambda: ben.plugins.ml.update_memory(memory_id=mine, body={"name": "x"}),
            lambda: ben.plugins.ml.delete_memory(memory_id=mine),
        ]
        for foreign in calls:
            with pytest.raises(NotFoundError):
                foreign()
        with pytest.raises(AuthenticationException):
            nobody.plugins.ml.get_all_memories()

        assert anna.plugins.ml.get_memory(memory_id=mine)["name"] == "private"
        (listed,) = anna.plugins.ml.get_all_messages(memory_id=mine)["messages"]
        assert listed["input"] == "secret"


def test_pipelines_need_the_admin_role_with_sign_in(cloud: Server) -> None:
    body = json.loads(json.dumps(DEFINITION).replace('"demo"', '"command_model"'))
    anna, admin = (
        client(cloud, headers=person("anna-3")),
        client(cloud, headers=person("root", "Chat.Admin")),
    )
    with anna, admin:
        with pytest.raises(AuthorizationException):
            anna.search_pipeline.put(id="mine", body=body)
        admin.search_pipeline.put(id="mine", body=body)
        assert anna.search_pipeline.get(id="mine") == {"mine": body}
        with pytest.raises(AuthorizationException):
            anna.search_pipeline.delete(id="mine")
        admin.search_pipeline.delete(id="mine")


def test_example_of_the_docs_runs(laptop: Server, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "opensearch.md").read_text("utf-8")
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(first.replace("http://localhost:7071", laptop.url), names)
    exec(second, names)
    answer, question = capsys.readouterr().out.strip().rsplit("\n", 1)
    search = names["search"]
    brief = search.search(
        body={"ext": {"generative_qa_parameters": {"llm_question": QUESTION}}},
        search_pipeline="brief",
    )
    search.search_pipeline.delete(id="brief")
    search.close()

    assert "$1,500" in answer
    assert question == "What is the deductible of Northwind Standard?"
    assert brief["ext"]["retrieval_augmented_generation"]["answer"]
