"""A strict fake of Azure AI Search: rejects what the service rejects, applies the app's filters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.support.upstream import RecordedRequest, Server, Step, error_response, json_response

API_VERSION = "2026-04-01"
PATH = f"/indexes('docs')/docs/search.post.search?api-version={API_VERSION}"
FIELDS = {"id", "content", "sourcepage", "sourcefile", "category", "oids", "groups"}
SELECTS = (FIELDS, {*FIELDS, "image"}, {"id"}, {"category"})
PARAMETERS = {
    "search",
    "filter",
    "select",
    "top",
    "skip",
    "vectorQueries",
    "queryType",
    "semanticConfiguration",
    "semanticQuery",
    "semanticErrorHandling",
    "captions",
    "count",
    "orderby",
    "searchFields",
    "facets",
}
FACET = re.compile(r"(category),count:(\d+),sort:value")
MAX_TOP, MAX_SKIP = 1000, 100_000
TEXT = r"'((?:[^']|'')*)'"


def document(name: str, **more: Any) -> dict[str, Any]:
    """A passage as the index stores it."""
    page = f"{name}.md"
    bare: dict[str, Any] = {"category": None, "oids": [], "groups": [], "image": None}
    content = f"The deductible in {name}."
    return {"id": name, "content": content, "sourcepage": page, "sourcefile": page, **bare, **more}


def unquote(text: str) -> str:
    return text.replace("''", "'")


def evaluate(holds: Callable[[re.Match[str]], bool], match: re.Match[str]) -> str:
    return str(holds(match))


def matches_filter(condition: str | None, doc: Mapping[str, Any]) -> bool | None:
    """Returns whether a document matches a filter; None for a filter that the app does not send."""
    if condition is None:
        return True
    expression = condition
    forms: dict[str, Callable[[re.Match[str]], bool]] = {
        r"(\w+)/any\(\)": lambda match: bool(doc[match[1]]),
        rf"(\w+)/any\(o: o eq {TEXT}\)": lambda match: unquote(match[2]) in doc[match[1]],
        rf"(\w+)/any\(g: search\.in\(g, {TEXT}, ','\)\)": lambda match: bool(
            set(unquote(match[2]).split(",")) & set(doc[match[1]])
        ),
        rf"category eq {TEXT}": lambda match: doc["category"] == unquote(match[1]),
        rf"category ne {TEXT}": lambda match: doc["category"] != unquote(match[1]),
        r"category eq null": lambda _: doc["category"] is None,
        rf"(\w+) eq {TEXT}": lambda match: doc[match[1]] == unquote(match[2]),
        rf"search\.in\(category, {TEXT}\)": lambda match: (
            doc["category"] in re.split("[ ,]+", unquote(match[1]))
        ),
    }
    try:
        for form, holds in forms.items():
            expression = re.sub(form, partial(evaluate, holds), expression)
    except KeyError:  # the index has no such field
        return None
    if not re.fullmatch(r"(?:True|False|and|or|not|[() ])+", expression):
        return None
    try:
        return bool(eval(expression, {"__builtins__": {}}))
    except SyntaxError:
        return None


def words(text: str) -> str:
    """The words of a text, each between spaces, as an analyzer finds them."""
    return " ".join(["", *re.findall(r"[^\W_]+", text.lower()), ""])


def has_phrase(body: Mapping[str, Any], doc: Mapping[str, Any]) -> bool:
    """Whether a field has the phrase that a query names fields for; True for any other query."""
    if "searchFields" not in body:
        return True
    phrase = re.fullmatch(r'"((?:[^"\\]|\\["\\])*)"', body["search"], re.DOTALL)
    assert phrase, body["search"]
    text = words(re.sub(r"\\(.)", r"\1", phrase[1]))
    return any(text in words(doc[name] or "") for name in body["searchFields"].split(","))


@dataclass
class FakeSearch(Server):
    """One index, `docs`. `ranker` is whether the service has a semantic ranker.

    `selects` are the allowed field lists; `scores` and `reranks` are the scores by passage id.
    `unfilterable`, `sortable` and `searchable` are the fields that the index defines so.
    """

    docs: Sequence[Mapping[str, Any]] = ()
    ranker: bool = True
    scores: dict[str, float] = field(default_factory=dict)
    reranks: dict[str, float] = field(default_factory=dict)
    partial: bool = False
    selects: Sequence[set[str]] = SELECTS
    sample: Mapping[str, Any] = field(default_factory=lambda: document("x"))
    unfilterable: Collection[str] = ()
    sortable: Collection[str] = ("id",)
    searchable: Collection[str] = ("content", "sourcefile", "filepath", "title")

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        body = request.body
        wrong = (
            body.keys() - PARAMETERS or set(str(body.get("select")).split(",")) not in self.selects
        )
        wrong = wrong or request.path != PATH or self.exceeds_index(body)
        if wrong or matches_filter(body.get("filter"), self.sample) is None:
            return error_response(400, code="InvalidRequest")
        if not request.headers["authorization"].startswith("Bearer "):
            return error_response(401)
        if body.get("queryType") == "semantic" and not self.ranker and not self.plan:
            details = [{"code": "SemanticQueriesNotAvailable", "message": "words"}]
            return error_response(400, code="FeatureNotSupportedInService", details=details)
        return None

    def exceeds_index(self, body: Mapping[str, Any]) -> bool:
        """Whether a query exceeds a limit, or uses a field for what the index does not allow."""
        filtered = [name for name, _ in re.findall(rf"(\w+) eq {TEXT}", body.get("filter") or "")]
        fields = body.get("searchFields")
        return (
            body["top"] > MAX_TOP
            or body.get("skip", 0) > MAX_SKIP
            or body.get("orderby") not in (None, *self.sortable)
            or not {*filtered}.isdisjoint(self.unfilterable)
            or (fields is not None and not {*fields.split(",")}.issubset(self.searchable))
        )

    def respond(self, request: RecordedRequest) -> list[Step]:
        body = request.body
        docs = [doc for doc in self.docs if matches_filter(body.get("filter"), doc)]
        visible = [doc for doc in docs if has_phrase(body, doc)]
        start = body.get("skip", 0)
        if order := body.get("orderby"):
            visible.sort(key=lambda doc: str(doc[order]))
        elif start:  # another replica, which sorts equal scores in another way
            visible.reverse()
        ranked = body.get("queryType") == "semantic" and not self.partial
        select = body["select"].split(",")
        selected = [{name: doc[name] for name in select} for doc in visible[start:][: body["top"]]]
        hits = [self.hit(doc, ranked, "captions" in body) for doc in selected]
        count = {"@odata.count": len(visible)} if body.get("count") else {}
        facets = self.facets(body["facets"], visible) if "facets" in body else {}
        return json_response({"value": hits, **count, **facets}, 206 if self.partial else 200)

    def facets(self, facets: Sequence[str], docs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        (match,) = map(FACET.fullmatch, facets)
        assert match is not None
        counts = Counter(doc[match[1]] for doc in docs if doc[match[1]] is not None)
        buckets = [{"value": name, "count": counts[name]} for name in sorted(counts)]
        return {"@search.facets": {match[1]: buckets[: int(match[2])]}}

    def hit(self, doc: Mapping[str, Any], ranked: bool, captions: bool) -> dict[str, Any]:
        hit: dict[str, Any] = {"@search.score": self.scores.get(doc.get("id", ""), 1.5), **doc}
        if ranked:
            hit["@search.rerankerScore"] = self.reranks.get(doc["id"], 2.5)
        if ranked and captions:
            hit["@search.captions"] = [{"text": f"caption of {doc['id']}", "highlights": ""}]
        return hit
