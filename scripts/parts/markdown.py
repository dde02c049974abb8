"""Removes from Markdown pages what mentions a removed part, and each link to what is gone.

Blocks are those of a parser: rows, list items, sections, blocks of code. In them `prose` works.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from scripts.parts.prose import Mentions, remove_mentions, split_sentences
from scripts.parts.removal import Tree

LINK = re.compile(r"\]\(([^)\s]+)\)")
LEAD = re.compile(r"\*\*.+?\*\*")
COMMANDS = ("sh", "bat", "powershell", "text", "")
PARSER = MarkdownIt("commonmark").enable("table")


def remove_from_pages(tree: Tree, pages: list[str], mentions: Mentions) -> None:
    """Change pages until none mentions, or links to, what is gone."""
    texts = {page: str(tree[page]) for page in pages}
    while True:
        anchors = {page: read_anchors(text) for page, text in texts.items()}
        changed = {
            page: remove_from_page(text, Links(page, tree, anchors, mentions).mentions)
            for page, text in texts.items()
        }
        if changed == texts:
            return
        texts = changed
        tree.update(texts)


def read_anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.*)", text)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a page, and what else is gone."""

    page: str
    tree: Mapping[str, object]
    anchors: Mapping[str, set[str]]
    others: Mentions

    def mentions(self, text: str) -> bool:
        """Whether a text mentions what is gone, or links to a file or heading that is not there."""
        return self.others(text) or any(not self.leads(target) for target in LINK.findall(text))

    def leads(self, target: str) -> bool:
        file, _, anchor = target.partition("#")
        if file.startswith(("http", "../../actions/", "mailto:")):
            return True
        folder = posixpath.dirname(self.page)
        path = posixpath.normpath(posixpath.join(folder, file)) if file else self.page
        is_there = path in self.tree or any(name.startswith(f"{path}/") for name in self.tree)
        return is_there and (not anchor or anchor in self.anchors.get(path, {anchor}))


def remove_from_page(text: str, mentions: Mentions) -> str:
    """A page without what mentions."""
    if not mentions(text):
        return text
    page = Page(text.split("\n"), mentions)
    root = SyntaxTreeNode(PARSER.parse(text))
    page.visit_blocks(root.children)
    return page.write().rstrip("\n") + "\n"


@dataclass(slots=True)
class Page:
    """A page and the changes to make in it: lines `start` to `end`, and what replaces them."""

    lines: list[str]
    mentions: Mentions
    changes: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    def write(self) -> str:
        """The changed text; a change inside a removed block has no effect."""
        lines: list[str | None] = [*self.lines]
        for (start, end), new in sorted(
            self.changes.items(), key=lambda each: each[0][0] - each[0][1]
        ):
            if lines[start] is not None or not new:
                lines[start:end] = ["\n".join(new) if new else None, *[None] * (end - start - 1)]
        return "\n".join(line for line in lines if line is not None)

    def visit_blocks(self, blocks: list[SyntaxTreeNode]) -> bool:
        """Change a sequence of blocks; whether none is left."""
        left: list[SyntaxTreeNode] = []
        level = 0  # of the section that is removed
        drop_next = False  # what a gone sentence introduced
        for block in blocks:
            depth = int(block.tag[1]) if block.type == "heading" else 0
            level = 0 if depth and depth <= level else level
            if depth > 1 and not level and self.mentions(self.source(block)):
                level = depth
            introduced, drop_next = drop_next and not depth, False
            gone = level or introduced or self.visit(block)
            if block.type == "paragraph" and not level:
                drop_next = self.was_introduction(block)
            if gone:
                self.remove(block)
                self.remove_introduction(left, drop_next)
            else:
                left.append(block)
        self.remove_empty_sections(left, blocks)
        return not left

    def visit(self, block: SyntaxTreeNode) -> bool:
        """Change a block; whether nothing of it is left."""
        if block.type == "heading" or not self.mentions(self.source(block)):
            return False
        match block.type:
            case "paragraph":
                return self.visit_paragraph(block)
            case "bullet_list" | "ordered_list":
                gone = [item for item in block.children if self.visit_item(item)]
                for item in gone:
                    self.remove(item)
                return len(gone) == len(block.children)
            case "table":
                return self.visit_table(block)
            case "fence" if block.info in COMMANDS:
                return self.visit_commands(block)
        return True

    def visit_item(self, item: SyntaxTreeNode) -> bool:
        first = item.children[0] if item.children else None
        if first and first.type == "paragraph":
            topic = split_sentences(first.children[0].content)[0]
            if (topic and not remove_mentions(topic, self.mentions)) or self.visit(first):
                return True
        self.visit_blocks(item.children[1:])
        return False

    def visit_paragraph(self, block: SyntaxTreeNode) -> bool:
        start, end = self.span(block)
        content = block.children[0].content
        prefix = self.lines[start][: self.lines[start].index(content.split("\n")[0])]
        lead = LEAD.match(content)
        is_about = lead is not None and self.mentions(lead[0])
        text = "" if is_about else remove_mentions(content, self.mentions)
        if not text:
            return True
        first, *rest = text.split("\n")
        indent = prefix if prefix.strip() == ">" else " " * len(prefix)
        self.changes[start, end] = [prefix + first, *(indent + line for line in rest)]
        return False

    def visit_commands(self, block: SyntaxTreeNode) -> bool:
        """Remove lines of commands or output, each with those that a backslash continues."""
        start, end = self.span(block)
        commands = re.findall(r"(?:.*\\\n)*.*\n?", "\n".join(self.lines[start + 1 : end - 1]))
        rest = [each.rstrip("\n") for each in commands if each and not self.mentions(each)]
        if block.info == "text" or not any(each.strip(" #") for each in rest):
            return True
        self.changes[start, end] = [self.lines[start], *rest, self.lines[end - 1]]
        return False

    def visit_table(self, table: SyntaxTreeNode) -> bool:
        """Remove columns by their heading, rows by their first cell, and what cells mention."""
        start, end = self.span(table)
        rows = [re.split(r"(?<!\\)\|", line.strip()[1:-1]) for line in self.lines[start:end]]
        columns = [at for at, cell in enumerate(rows[0]) if not self.mentions(cell)]
        rows = [[row[at] for at in columns if at < len(row)] for row in rows]
        body = [new for row in rows[2:] if (new := self.reduce_row(row))]
        self.changes[start, end] = [f"|{'|'.join(row)}|" for row in [*rows[:2], *body]]
        return not body or 0 not in columns

    def reduce_row(self, row: list[str]) -> list[str]:
        """A row, or [] if a cell that said something says nothing any more."""
        cells = [remove_mentions(cell.strip(), self.mentions) for cell in row]
        first = re.split(r", | and ", cells[0] and row[0].strip())[0]
        emptied = self.mentions(first) or any(
            old.strip() and not new for old, new in zip(row, cells, strict=True)
        )
        return [] if emptied else [f" {cell} " if cell else " " for cell in cells]

    def was_introduction(self, block: SyntaxTreeNode) -> bool:
        """Whether a paragraph ended in a colon, and does not any more."""
        new = self.changes.get(
            self.span(block), [""] if self.mentions(self.source(block)) else [":"]
        )
        return block.children[0].content.endswith(":") and not new[-1].endswith(":")

    def remove_introduction(self, left: list[SyntaxTreeNode], introduced: bool) -> None:
        """Remove the sentence that ends in a colon before a block that is gone."""
        if not left or left[-1].type != "paragraph" or introduced:
            return
        block = left[-1]
        start, end = self.span(block)
        old = self.changes.get((start, end), self.lines[start:end])
        if not old[-1].endswith(":"):
            return
        text = "\n".join(old)
        new = re.sub(r"(?:^|(?<=[.!?])\s+)(?:[^.]|\.(?=\S))*:$", "", text)
        if new.strip():
            self.changes[start, end] = new.split("\n")
        else:
            left.pop()
            self.remove(block)

    def remove_empty_sections(self, left: list[SyntaxTreeNode], all_: list[SyntaxTreeNode]) -> None:
        """Remove each heading under which something stood, and nothing is left."""
        following: SyntaxTreeNode | None = None
        for block in [*reversed(left)]:
            after = all_[all_.index(block) + 1 :]
            is_empty = not following or not self.is_below(following, block)
            had_content = after and self.is_below(after[0], block)
            if block.type == "heading" and is_empty and had_content and self.span(block)[0]:
                self.remove(block)
            else:
                following = block

    @staticmethod
    def is_below(block: SyntaxTreeNode, heading: SyntaxTreeNode) -> bool:
        return block.type != "heading" or block.tag > heading.tag

    def remove(self, block: SyntaxTreeNode) -> None:
        """Remove a block with the blank lines after it."""
        start, end = self.span(block)
        while end < len(self.lines) and not self.lines[end].strip():
            end += 1
        self.changes[start, end] = []

    def span(self, block: SyntaxTreeNode) -> tuple[int, int]:
        assert block.map
        return block.map

    def source(self, block: SyntaxTreeNode) -> str:
        """The text of a block."""
        return "\n".join(self.lines[slice(*self.span(block))])
