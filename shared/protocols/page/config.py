"""The settings of the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageConfig:
    """Whether the deployment has the page, and what the page says. Anybody may read it."""

    enabled: bool = True
    title: str | None = None  # None: the page's own, in its language
    color: str | None = None  # "#rrggbb"; None: that of tokens.css
    questions: tuple[str, ...] = ()  # for the first screen
    uploads: bool = False  # whether users can upload documents
