"""The turns before a rated answer, without which its question may have no meaning."""

from __future__ import annotations

from collections.abc import Iterable

from shared.domain.errors import NotFound
from shared.memory.base import Interaction, PageRequest, Turn
from shared.memory.chat_history import to_messages
from shared.memory.copies import EarlierTurn
from shared.protocols.feedback.rating import RatedAnswer

MAX_TURNS = 3
MAX_LENGTH = 4000  # characters of all of them
PAGE_SIZE = 100


async def read_earlier_turns(answer: RatedAnswer) -> tuple[EarlierTurn, ...]:
    """Return the last turns before an answer that its model could get, the oldest first.

    None if the conversation is deleted. Raises ChatErrors.
    """
    id, interactions = answer.interaction.conversation, answer.memory.interactions
    found, start, more = list[Interaction](), 0, True
    while more and len(found) < MAX_TURNS:
        try:
            turns = await interactions.list(answer.owner, id, PageRequest(start, PAGE_SIZE))
        except NotFound:
            return ()
        found += [each for each in turns if each.id < answer.interaction.id and to_messages([each])]
        start, more = start + PAGE_SIZE, len(turns) == PAGE_SIZE
    return _limit(each.turn for each in found[:MAX_TURNS])


def _limit(turns: Iterable[Turn]) -> tuple[EarlierTurn, ...]:
    """Return turns, the newest first, in reverse, until they have the maximum of characters.

    The answer that exceeds it is cut.
    """
    kept, left = list[EarlierTurn](), MAX_LENGTH
    for turn in turns:
        left -= len(turn.input)
        if left <= 0:
            break
        kept.append(EarlierTurn(turn.input, turn.response[:left]))
        left -= len(kept[-1].answer)
    return tuple(kept[::-1])
