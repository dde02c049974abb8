"""Drafts a question about a passage, and marks what a person has to check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evals.drafts.duplicates import find_duplicate
from evals.drafts.passages import EVERYBODY
from evals.drafts.replies import CheckReply, DraftReply, contains_all, make_messages
from evals.json_replies import request_reply
from evals.questions import Question
from shared.domain.events import Source
from shared.domain.overrides import Overrides
from shared.models.base import Model
from shared.retrieval.base import Retriever, shorten_query

DUPLICATE, UNANSWERABLE, OTHER_ANSWER = "duplicate", "unanswerable", "other answer"
NOT_RETRIEVED = "not retrieved"
STEP = 0.4  # of the temperature: the same reply again would be as invalid
MARKS = (DUPLICATE, UNANSWERABLE, OTHER_ANSWER, NOT_RETRIEVED)


@dataclass(frozen=True, slots=True)
class Drafter:
    """Drafts questions with the model and the search of the app."""

    model: Model
    retriever: Retriever
    defaults: Overrides  # of the search

    async def draft(self, passage: Source) -> Question | None:
        """Return a question that the passage answers; None if it has nothing to ask about.

        Raises InvalidReply, and ChatErrors.
        """
        text = passage.content
        messages = make_messages("draft", passage=text)
        reply = await request_reply(self.model, messages, DraftReply, {"passage": text}, STEP)
        if reply.question is None:
            return None
        question = Question(
            question=reply.question,
            citations=((passage.sourcepage,),),
            facts=tuple((fact,) for fact in reply.facts),
            reference=reply.answer,
            tags=(passage.category,) if passage.category else (),
            passage=passage.content,
        )
        question = await self._mark_other_answer(question)
        return await self._mark_not_retrieved(question, passage)

    async def _mark_other_answer(self, question: Question) -> Question:
        """Let the model answer from the passage: it sees neither the answer nor the facts."""
        texts = {"question": question.question, "passage": question.passage or ""}
        messages = make_messages("draft_check", **texts)
        reply = await request_reply(self.model, messages, CheckReply, step=STEP)
        if reply.answer is None:
            return mark(question, UNANSWERABLE, "The passage does not answer it, the model says.")
        facts = (fact for alternatives in question.facts for fact in alternatives)
        if not contains_all(reply.answer, facts):
            note = f"From the passage alone, the model answers without the facts: {reply.answer}"
            return mark(question, OTHER_ANSWER, note)
        return question

    async def _mark_not_retrieved(self, question: Question, passage: Source) -> Question:
        query = shorten_query(question.question)
        result = await self.retriever.search(EVERYBODY, query, self.defaults)
        texts = [source.content for source in result.sources]
        if passage.content not in texts:
            note = "The app's search does not return the passage."
            return mark(question, NOT_RETRIEVED, note)
        return question


def mark_duplicate(question: Question, others: Iterable[Question]) -> Question:
    """Return the question, marked if it is like one of the others."""
    other = find_duplicate(question, others)
    return mark(question, DUPLICATE, f"Like this one: {other.question}") if other else question


def mark(question: Question, tag: str, note: str) -> Question:
    """Return the question with another tag and note."""
    notes = f"{question.note} {note}" if question.note else note
    return question.model_copy(update={"tags": (*question.tags, tag), "note": notes})
