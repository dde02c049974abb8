"""What is measured: which questions, how many at once, and how fast the services are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.serving.replies import REWRITE_TOKENS, TOKENS
from bench.serving.targets import CHAT, HYBRID, KNOWLEDGE, RESPONSES, TEXT, Target

# Seconds: before a search or an embedding, before the first token, between two tokens.
NO_DELAY = {"search": 0.0, "first_token": 0.0, "token": 0.0}
AZURE_DELAY = {"search": 0.06, "first_token": 0.3, "token": 0.01}

(QUESTION,) = CHAT["messages"]
FIRST_TURN = [
    {"role": "user", "content": "How many days of vacation do I get?"},
    {"role": "assistant", "content": "You get 20 days a year. [handbook.md#section-1]"},
]
STREAM = {**CHAT, "stream": True}
CALLS = {"ask": {"question": QUESTION["content"]}, "search": {"query": QUESTION["content"]}}
MCP = {
    name: {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }
    for name, arguments in CALLS.items()
}
INPUT = {"input": QUESTION["content"]}
OPENSEARCH = {"ext": {"generative_qa_parameters": {"llm_question": QUESTION["content"]}}}


@dataclass(frozen=True, slots=True)
class Case:
    """So many answers, so many of them at once. `only_app` is a protocol of the app alone.

    `tokens` are those in each answer: MCP's has the text twice, once as JSON, a stream of Responses
    five times, by its deltas and by what is done.
    """

    name: str
    at_once: int
    answers: int
    delays: Mapping[str, float]
    path: str = "/chat/stream"
    body: Any = None
    variant: str = TEXT
    only_app: bool = False
    tokens: int = TOKENS

    @property
    def has_history(self) -> bool:
        """Whether the question follows another one, so that it is rewritten."""
        return len((self.body or CHAT).get("messages", ())) > 1

    @property
    def waits_ms(self) -> tuple[float, float]:
        """The waits for the services before the first line and before the first token."""
        search = self.delays["search"] * (2 if self.variant == HYBRID else 1)
        rewrite = self.delays["first_token"] + self.delays["token"] * REWRITE_TOKENS
        line = search + (rewrite if self.has_history else 0)
        return line * 1000, (line + self.delays["first_token"]) * 1000

    def job(self, target: Target, scale: float = 1) -> dict[str, Any]:
        """What the load client does: `scale` times the answers."""
        answers = max(1, round(self.answers * scale))
        at_once = min(self.at_once, answers)
        return {
            "url": target.url + self.path,
            "pid": target.pid,
            "body": self.body or CHAT,
            "at_once": at_once,
            "answers": answers,
            "warm_up": at_once if self.delays["token"] else min(answers, max(20, 2 * at_once)),
            "waits_ms": self.waits_ms,
            "tokens": self.tokens,
        }


MANY = Case("50 at once", 50, 200, NO_DELAY)
QUICK = (
    Case("1 at once", 1, 100, NO_DELAY),
    MANY,
    Case("10 ms a token, 10 at once", 10, 20, AZURE_DELAY),
    Case("10 ms a token, 50 at once", 50, 50, AZURE_DELAY),
)
HISTORY = {"messages": [*FIRST_TURN, QUESTION]}
KNOWLEDGE_BASE = Case(
    "a knowledge base, 50 at once", 50, 200, NO_DELAY, variant=KNOWLEDGE, only_app=True
)
FULL = (
    *QUICK,
    Case("10 at once", 10, 100, NO_DELAY),
    Case("200 at once", 200, 400, NO_DELAY),
    Case("not streamed, 1 at once", 1, 100, NO_DELAY, path="/chat"),
    Case("not streamed, 50 at once", 50, 200, NO_DELAY, path="/chat"),
    Case("hybrid, 1 at once", 1, 100, NO_DELAY, variant=HYBRID),
    Case("hybrid, 50 at once", 50, 200, NO_DELAY, variant=HYBRID),
    Case("with history, 1 at once", 1, 100, NO_DELAY, body=HISTORY),
    Case("with history, 50 at once", 50, 200, NO_DELAY, body=HISTORY),
    Case("10 ms a token, 1 at once", 1, 5, AZURE_DELAY),
    Case("10 ms a token, hybrid, 1 at once", 1, 5, AZURE_DELAY, variant=HYBRID),
    Case("10 ms a token, with history, 1 at once", 1, 5, AZURE_DELAY, body=HISTORY),
    Case("OpenAI", 10, 100, NO_DELAY, "/v1/chat/completions", STREAM, only_app=True),
    Case("OpenAI, not streamed", 10, 100, NO_DELAY, "/v1/chat/completions", CHAT, only_app=True),
    Case(
        "Responses",
        10,
        100,
        NO_DELAY,
        "/v1/responses",
        {**INPUT, "stream": True},
        only_app=True,
        tokens=5 * TOKENS,
    ),
    Case("Responses, not streamed", 10, 100, NO_DELAY, "/v1/responses", INPUT, only_app=True),
    Case("AOG", 10, 100, NO_DELAY, "/aog/v0.2/services/chat", STREAM, only_app=True),
    Case("a model with Responses, 10 at once", 10, 100, NO_DELAY, variant=RESPONSES, only_app=True),
    KNOWLEDGE_BASE,
    Case("OpenSearch", 10, 100, NO_DELAY, "/docs/_search", OPENSEARCH, only_app=True),
    Case("MCP ask", 50, 200, NO_DELAY, "/mcp", MCP["ask"], only_app=True, tokens=2 * TOKENS),
    Case("MCP search", 50, 200, NO_DELAY, "/mcp", MCP["search"], only_app=True, tokens=0),
)
