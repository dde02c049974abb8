"""`make index` and the search, with vectors of llama.cpp."""

from __future__ import annotations

from pathlib import Path

from tests.support.ingest_command import run_command, write
from tests.support.model.app import post
from tests.support.model.llama_server import run_llama_server
from tests.support.servers import asking, run_server


def test_folder_is_indexed_and_searched_with_vectors(kind: str, tmp_path: Path) -> None:
    folder, index = tmp_path / "documents", str(tmp_path / "index.db")
    write(folder, "parking.md", "# Parking\n\nEmployees park in the garage behind the building.")
    write(folder, "pets.md", "# Pets\n\nDogs are welcome on Fridays.")
    with run_llama_server(tmp_path, "--embedding") as llama:
        embedding = {
            "OPENAI_EMBEDDING_MODEL": "local",
            "OPENAI_EMBEDDING_BASE_URL": f"{llama.url}/v1",
            "INDEX_FILE": index,
        }
        done = run_command(str(folder), **embedding)
        # A mode without words: only vectors find anything.
        overrides = {"retrieval_mode": "vectors", "minimum_reranker_score": 0}
        question = asking("May I bring my dog?", context={"overrides": overrides})
        with run_server(kind, tmp_path, {**embedding, "CHAT_MODEL": "demo"}) as server:
            answer = post(server, "/chat", question)

    assert done.returncode == 0, done.stdout + done.stderr
    assert answer.status_code == 200, answer.text
    passages = answer.json()["context"]["data_points"]["text"]
    assert {passage.split(":", 1)[0] for passage in passages} == {"parking.md", "pets.md"}
