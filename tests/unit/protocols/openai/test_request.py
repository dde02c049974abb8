"""What chat completions and AOG refuse in a message: the sentence, and the field that it names."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.calls import BufferedReply, ask, call

USER: Any = {"role": "user", "content": "Hello?"}


def complete(**fields: Any) -> BufferedReply:
    return ask(call("/v1/chat/completions", {"messages": [USER], "model": "chat", **fields}))


@pytest.mark.parametrize(
    ("fields", "param", "sentence"),
    [
        (
            {"messages": [USER, {"role": "assistant", "content": "Hello."}]},
            "messages[1].role",
            "the last one is the user's or a tool's",
        ),
        (
            {"messages": [USER, {"role": "tool", "content": "{}"}]},
            "messages[1].tool_call_id",
            "is required",
        ),
        (
            {"messages": [{"role": "system", "content": "Be kind."}]},
            "messages",
            "at least one must be the user's, with a text",
        ),
        ({"logprobs": True}, "logprobs", "are not given here"),
        ({"top_logprobs": 2}, "logprobs", "are not given here"),
        (
            {"tools": [{"type": "function", "function": {"name": ""}}]},
            "tools[0].function.name",
            "must not be empty",
        ),
        ({"functions": [{}]}, "functions", "are not read here: offer them as tools"),
        ({"dataSources": [{}]}, "dataSources", "are not read here: send data_sources"),
    ],
)
def test_chat_completions_name_what_they_do_not_read(
    fields: dict[str, Any], param: str, sentence: str
) -> None:
    reply = complete(**fields)

    assert reply.status == 400
    assert reply.json["error"]["param"] == param
    assert sentence in reply.json["error"]["message"]
