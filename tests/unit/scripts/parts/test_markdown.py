"""Pages lose the blocks that mention a part, and the links to what is gone."""

from __future__ import annotations

import pytest

from scripts.parts.markdown import remove_from_page, remove_from_pages
from scripts.parts.removal import Tree


def mentions(text: str) -> bool:
    return "AOG" in text


@pytest.mark.parametrize(
    ("page", "rest"),
    [
        (
            "# A\n\nOne.\n\n## AOG\n\nTwo.\n\n### More\n\nText.\n\n## B\n\nThree.\n",
            "# A\n\nOne.\n\n## B\n\nThree.\n",
        ),
        ("# A\n\n- one\n- AOG's\n  list\n- three, four\n", "# A\n\n- one\n- three, four\n"),
        ("# A\n\n- one\n  - AOG\n  - two\n", "# A\n\n- one\n  - two\n"),
        ("| a | b |\n|---|---|\n| AOG | 1 |\n| two | 2 |\n", "| a | b |\n|---|---|\n| two | 2 |\n"),
        ("| a | AOG | b |\n|---|---|---|\n| 1 | 2 | 3 |\n", "| a | b |\n|---|---|\n| 1 | 3 |\n"),
        ("| a | b |\n|---|---|\n| 1 | Yes. AOG, too. |\n", "| a | b |\n|---|---|\n| 1 | Yes. |\n"),
        (
            "# A\n\nText. AOG's clients send:\n\n```json\n{}\n```\n\nEnd.\n",
            "# A\n\nText.\n\nEnd.\n",
        ),
        ('# A\n\nText. They send:\n\n```json\n{"AOG": 1}\n```\n\nEnd.\n', "# A\n\nText.\n\nEnd.\n"),
        ("```sh\nmake a\nmake AOG \\\n  more\nmake b\n```\n", "```sh\nmake a\nmake b\n```\n"),
        ("# A\n\n## B\n\nAOG.\n\n## C\n\nText.\n", "# A\n\n## C\n\nText.\n"),
        ("# A\n\n**AOG** is this. More of that.\n\nEnd.\n", "# A\n\nEnd.\n"),
        ("```python\nx = 1\n\n\n\ny = 2\n```\n\nAOG.\n", "```python\nx = 1\n\n\n\ny = 2\n```\n"),
    ],
)
def test_block_that_mentions_is_removed(page: str, rest: str) -> None:
    assert remove_from_page(page, mentions) == rest


def test_links_to_what_is_gone_go_and_so_do_links_to_their_headings() -> None:
    tree: Tree = {
        "README.md": "# A\n\nText ([how](docs/b.md#x)). Here.\n\n- [a](docs/c.md)\n- [b](docs)\n",
        "docs/b.md": "# B\n\nText.\n\n## X\n\n[More](../shared/aog/) is there.\n",
    }
    remove_from_pages(tree, ["README.md", "docs/b.md"], mentions)

    assert tree["README.md"] == "# A\n\nText. Here.\n\n- [b](docs)\n"
    assert tree["docs/b.md"] == "# B\n\nText.\n"
