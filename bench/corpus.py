"""Passages and questions in several languages, as frequent words stand in real ones.

Few words are everywhere and most are rare, as Zipf's law says; the most frequent are real.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from pathlib import Path
from random import Random

from ingest.splitting.passages import Passage
from ingest.targets.index_writer import Document

DOCUMENTS = Path(__file__).parent.parent / "shared" / "data" / "documents"
VOCABULARY = 40_000  # words of one language
PASSAGE_WORDS, FILE_PASSAGES = 120, 50
GROUPS = [f"group-{number}" for number in range(60)]
HEADS = {
    "de": """der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch
        es an werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über so zum
        kann Versicherung Krankenhaus Arzt Kosten Leistung Beitrag Urlaub Mitarbeiter""",
    "fr": """de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce
        il sont avec ou être cette son aux comme nous vous leur assurance hôpital médecin
        remboursement salaire congé employé contrat""",
    "ar": """في من على إلى أن التي الذي عن مع هذا هذه كان ما لا كل بعد بين ذلك أو قد التأمين
        المستشفى الطبيب التكاليف الموظف الإجازة العقد الراتب""",
    "zh": """的 在 是 和 了 有 为 与 对 中 保险 医院 医生 费用 员工 假期 合同 工资 服务 部门""",
}
ENDS = {
    "en": "ing ed er ion ment ness ity al ous ive",
    "de": "ung heit keit lich ungen isch er en",
    "fr": "tion ment eur euse age ique ité es",
    "ar": "ات ون ين ة ي",
    "zh": "",
}
LETTERS = {
    "en": ("b c d f g l m n p r s t v st tr pl", "a e i o u ea ou"),
    "de": ("b d f g h k l m n r s t w z sch st pf", "a e i o u ei au ü ö"),
    "fr": ("b c d f l m n p r s t v ch qu", "a e é i o u ou ai eau"),
    "ar": ("ب ت ج ح د ر س ش ع ف ق ك ل م ن", "و ي"),
    "zh": ("".join(map(chr, range(0x4E00, 0x5500))), ""),
}
SHARES = {"en": 60, "de": 15, "fr": 10, "ar": 10, "zh": 5}


@dataclass(frozen=True, slots=True)
class Language:
    """The words of a language, the most frequent first, and how often each stands, summed up."""

    words: tuple[str, ...]
    weights: tuple[float, ...]
    gap: str

    def text(self, chance: Random, words: int, skip: int = 0) -> str:
        """Some words by chance; the first `skip` of the language are left out."""
        drawn = chance.choices(self.words[skip:], cum_weights=self.weights[skip:], k=words)
        return self.gap.join(drawn)


def languages() -> Mapping[str, Language]:
    """The languages of the passages."""
    chance = Random(1)
    heads = {"en": english(), **{name: words.split() for name, words in HEADS.items()}}
    return {name: language(name, head, chance) for name, head in heads.items()}


def english() -> list[str]:
    """The words of the sample documents, the most frequent first."""
    texts = (
        path.read_text("utf-8") for path in sorted(DOCUMENTS.rglob("*.*")) if path.suffix != ".pdf"
    )
    counted = Counter(word for text in texts for word in re.findall(r"[A-Za-z]+", text))
    return [word for word, _ in counted.most_common()]


def language(name: str, head: list[str], chance: Random) -> Language:
    """A language of `VOCABULARY` words that begins with some real ones."""
    rest = islice(invent_words(name, chance, set(head)), VOCABULARY - len(head))
    words = (*head, *rest)
    weights = accumulate(1 / (rank + 2.7) for rank in range(len(words)))
    return Language(words, tuple(weights), "" if name == "zh" else " ")


def invent_words(name: str, chance: Random, used: set[str]) -> Iterator[str]:
    """Words that sound like the language, none of them twice."""
    starts, middles = (part.split() or list(part) or [""] for part in LETTERS[name])
    starts = list("".join(starts)) if name == "zh" else starts
    while True:
        syllables = (
            chance.choice(starts) + chance.choice(middles) for _ in range(chance.randrange(2, 5))
        )
        word = "".join(syllables) + chance.choice(ENDS[name].split() or [""])
        if word not in used:
            used.add(word)
            yield word


def documents(passages: int, dimensions: int) -> Iterator[Document]:
    """Files with so many passages in all, and vectors of so many numbers where it is not 0.

    Every second file is for one of the groups alone.
    """
    known, chance = languages(), Random(2)
    for file in range(-(-passages // FILE_PASSAGES)):
        (name,) = chance.choices(list(SHARES), list(SHARES.values()))
        count = min(FILE_PASSAGES, passages - file * FILE_PASSAGES)
        item = document(f"{name}/{file}.pdf", known[name], count, dimensions)
        yield restricted(item, GROUPS[file // 2 % len(GROUPS)]) if file % 2 else item


def document(name: str, language: Language, count: int, dimensions: int) -> Document:
    """A file, always the same for its name."""
    chance = Random(name)
    passages = tuple(passage(name, number, language, chance) for number in range(count))
    return Document(name, "1", passages, vectors(chance, count, dimensions))


def restricted(document: Document, group: str) -> Document:
    """A file that a group alone may see."""
    passages = tuple(replace(passage, groups=(group,)) for passage in document.passages)
    return replace(document, passages=passages)


def passage(name: str, number: int, language: Language, chance: Random) -> Passage:
    """A passage with a table's or a form's numbers in it."""
    text = language.text(chance, PASSAGE_WORDS)
    content = f"{text} {chance.randrange(10_000)} {chance.randrange(100)} %."
    page = f"{name}#page={number + 1}"
    return Passage(f"{name}-{number}", content, page, name, name.partition("/")[0])


def vectors(chance: Random, count: int, dimensions: int) -> tuple[list[float], ...] | None:
    """Vectors that lie by chance."""
    if not dimensions:
        return None
    import numpy as np

    drawn = np.random.default_rng(chance.getrandbits(32)).standard_normal((count, dimensions))
    return tuple(drawn.tolist())


def questions(count: int) -> Iterator[str]:
    """Questions of three to fifteen words, frequent and rare ones, in all the languages."""
    known, chance = languages(), Random(3)
    for _ in range(count):
        (name,) = chance.choices(list(SHARES), list(SHARES.values()))
        yield known[name].text(chance, chance.randrange(3, 16)) + "?"
