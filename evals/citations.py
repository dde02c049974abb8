"""The citations in the text of an answer."""

from __future__ import annotations

import re

from evals.records import Reply

# A name in brackets that ends like a file; what follows a Markdown link's text is none.
CITATION = re.compile(r"\[([^\[\]\n]{1,1100}\.\w{1,8}(?:#page=\d+)?)\](?!\()")


def find_citations(reply: Reply) -> tuple[str, ...]:
    """Return the names that an answer cites, each once: those of passages, and of any file."""
    names = sorted(
        {passage.name for passage in reply.passages if passage.name}, key=len, reverse=True
    )
    patterns = [*(re.escape(f"[{name}]") for name in names), CITATION.pattern]
    cited = (match[0] for match in re.finditer("|".join(patterns), reply.content))
    return tuple(dict.fromkeys(marker[1:-1] for marker in cited))
