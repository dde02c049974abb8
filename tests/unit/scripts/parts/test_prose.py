"""The smallest whole that mentions a part goes: an item, parentheses, a clause, a sentence."""

from __future__ import annotations

import pytest

from scripts.parts.prose import remove_mentions, split_sentences


def mentions(text: str) -> bool:
    return "AOG" in text


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("It works. AOG works, too. All do.", "It works. All do."),
        ("AOG is a gateway. It has a list. Models answer.", "Models answer."),
        ("AOG alone.", ""),
        ("Clients of OpenAI, AOG and OpenSearch work.", "Clients of OpenAI and OpenSearch work."),
        ("Clients: OpenAI's SDKs, OpenSearch, AOG.", "Clients: OpenAI's SDKs, OpenSearch."),
        ("Clients: OpenAI's SDKs, AOG and OpenSearch.", "Clients: OpenAI's SDKs and OpenSearch."),
        ("Clients: OpenAI's SDKs, OpenSearch and AOG.", "Clients: OpenAI's SDKs and OpenSearch."),
        ("Clients: AOG, OpenAI's SDKs and `curl`.", "Clients: OpenAI's SDKs and `curl`."),
        ("Not `admin`, `AOG` or `ask`.", "Not `admin` or `ask`."),
        ("Ollama, AOG gateways", "Ollama"),
        ("Some routes (AOG's list, `/content`) wait.", "Some routes (`/content`) wait."),
        ("Some routes (AOG's list) wait.", "Some routes wait."),
        ("The policy is a setting; AOG has a key for it.", "The policy is a setting."),
        ("AOG, which waits, answers.", ""),
        ("The page reads AOG, and uses no other route.", ""),
        ("Without AOG, a model or a gateway is needed.", ""),
        ("AOG lists, reads and deletes them.", ""),
        ("AOG lasts a day; a backup lasts two.", "A backup lasts two."),
        ("It runs if AOG allows it; otherwise it stops.", ""),
        ("**Gateways.** AOG alone.", ""),
        ("AOG alone. [More](a.md).", ""),
        ("Nothing here.", "Nothing here."),
    ],
)
def test_smallest_whole_is_removed(text: str, rest: str) -> None:
    assert remove_mentions(text, mentions) == rest


def test_sentences_do_not_end_in_code_or_links() -> None:
    text = "Set `a. B` in [this file](a.md. B) now. Then go."

    assert split_sentences(text) == ["Set `a. B` in [this file](a.md. B) now. ", "Then go."]
