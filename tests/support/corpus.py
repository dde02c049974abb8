"""A folder of documents of every type with the expected results: `write_corpus(folder)`.

Each that can be read says of a thing with a name of its own what it costs; each other has a
reason why it cannot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import sample_files as samples


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """A readable file. One of its passages, cited as `sourcepage`, contains `thing`."""

    name: str
    thing: str
    sourcepage: str
    category: str = ""
    picture: bool = False

    @property
    def sentence(self) -> str:
        """A text that the passage contains."""
        return self.thing if self.picture else price_sentence(self.thing)

    @property
    def question(self) -> str:
        """A question that the passage answers."""
        return f"Where is the {self.thing}?" if self.picture else f"What does {self.thing} cost?"


@dataclass(frozen=True, slots=True)
class Corpus:
    """`broken` has the reason for each file that gives no passages, by its name."""

    folder: Path
    readable: tuple[ExpectedFile, ...]
    broken: Mapping[str, str]


def price_sentence(thing: str) -> str:
    return f"{thing} costs {sum(map(ord, thing))} dollars"


def _rows(thing: str, part: str) -> str:
    many = (f"Item {number}{part}{number} dollars{part}2026-01-{number:02}" for number in range(30))
    return "\n".join(
        (f"name{part}price{part}since", *many, f"last{part}{price_sentence(thing)}{part}now")
    )


_NOISE = "<script>track()</script><style>p {}</style><nav><a href='/'>Home</a></nav>"
_NAMES = [["Name", "Price"], ["Desk", "12"], ["Chair", "7"]]
_SHEETS: dict[str, list[list[object]]] = {
    "Prices": [["Item", "Note"], *([f"i{n}", n] for n in range(200))]
}
_PHOTO = samples.image("JPEG")

# By their names: the bytes, and the thing that they speak of.
_TEXTS: dict[str, tuple[bytes, str]] = {
    "notes.txt": (price_sentence("Quillfeather").encode(), "Quillfeather"),
    "legacy/latin.txt": (f"Grüße! {price_sentence('Löwenzahn')}.".encode("latin-1"), "Löwenzahn"),
    "legacy/utf16.txt": (price_sentence("Marmalade").encode("utf-16"), "Marmalade"),
    "web/page.html": (
        f"<title>Shop</title>{_NOISE}<h1>Prices</h1><p>{price_sentence('Tamarind')}".encode(),
        "Tamarind",
    ),
    "web/old.htm": (
        f"<meta charset=iso-8859-1><p>{price_sentence('Käsekuchen')}".encode("latin-1"),
        "Käsekuchen",
    ),
    "languages/arabic.md": (f"السعر هنا. {price_sentence('زعفران')}.".encode(), "زعفران"),
    "languages/chinese.txt": (f"价格在这里。{price_sentence('枸杞子')}。".encode(), "枸杞子"),
    "data/rows.csv": (_rows("Hollyhock", ";").encode(), "Hollyhock"),
    "data/rows.tsv": (_rows("Snapdragon", "\t").encode(), "Snapdragon"),
    "data/shop.json": (
        json.dumps({"shop": [{"note": price_sentence("Buttercup")}]}).encode(),
        "Buttercup",
    ),
    "data/log.jsonl": (
        f'{{"id": 1}}\n{{"id": 2, "note": "{price_sentence("Larkspur")}"}}\n'.encode(),
        "Larkspur",
    ),
    "office/text.docx": (
        samples.docx("Prices", f"{price_sentence('Foxglove')}.", _NAMES),
        "Foxglove",
    ),
    "office/show.pptx": (
        samples.pptx("Prices", "By item", price_sentence("Celandine"), _NAMES),
        "Celandine",
    ),
    "office/book.xlsx": (
        samples.xlsx({**_SHEETS, "Hidden": [["Item"], [price_sentence("Periwinkle")]]}, ["Hidden"]),
        "Periwinkle",
    ),
}
_PDFS: dict[str, tuple[bytes, str]] = {
    "plans/three.pdf": (
        samples.pdf(
            [
                samples.lines("One"),
                samples.lines(price_sentence("Bluebell")),
                samples.lines("Three"),
            ]
        ),
        "Bluebell",
    ),
    "plans/owner.pdf": (
        samples.encrypted(
            samples.pdf([samples.lines("One"), samples.lines(price_sentence("Cowslip"))]),
            "",
            "secret",
        ),
        "Cowslip",
    ),
}
_DRAWN = samples.pdf([b"", samples.lines("Floor plan") + b" q /Im1 Do Q"], _PHOTO, (300, 200))
_PICTURES: dict[str, tuple[bytes, str]] = {
    f"pictures/{name}": (samples.image(form, seed=number), thing)
    for number, (name, form, thing) in enumerate(
        (
            ("org-chart.png", "PNG", "org chart"),
            ("loading_dock.jpg", "JPEG", "loading dock"),
            ("west-entrance.gif", "GIF", "west entrance"),
            ("fireEscape.webp", "WEBP", "fire Escape"),
            ("parking-lot.bmp", "BMP", "parking lot"),
            ("roof-garden.tiff", "TIFF", "roof garden"),
        )
    )
}
_LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

_BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "locked.pdf": (
        lambda: samples.encrypted(samples.pdf([samples.lines("Secret")]), "user", "owner"),
        "It is encrypted: it opens with a password only.",
    ),
    "locked.xlsx": (
        lambda: _OLE + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le"),
        "It is encrypted: it opens with a password only.",
    ),
    "scan.pdf": (
        lambda: samples.pdf([b"0 0 m 9 9 l S"]),
        "It is scanned or drawn: its pages hold no text, and no image that can be shown.",
    ),
    "empty.md": (lambda: b" \n", "It is empty."),
    "blank.docx": (lambda: samples.docx_of(samples.paragraph("")), "It holds no text."),
    "word.pdf": (
        lambda: samples.docx("A", "B", _NAMES),
        "Its content is not what its name says.",
    ),
    "program.txt": (lambda: b"MZ\x90\0\3\0\0\0", "Its content is not what its name says."),
    "damaged.pdf": (lambda: samples.pdf([samples.lines("One")])[:300], "It is damaged."),
    "damaged.docx": (
        lambda: samples.docx("A", "B", _NAMES)[:700],
        "It is damaged: its archive cannot be opened.",
    ),
    "damaged.png": (lambda: samples.image("PNG")[:200], "It is a damaged image."),
    "comma.json": (lambda: b'{"a": 1,\n "b": }', "It is not valid JSON (line 2)."),
    "program.exe": (lambda: b"MZ\x90\0", "There is no reader for this type of file."),
    "large.txt": (lambda: b"Forty megabytes of text. " * 1_700_000, "It is larger than 32 MB."),
    "bomb.docx": (
        lambda: samples.docx_of("", more={"word/x.xml": b" " * 300 * 2**20}),
        "It unpacks to more than 64 MB.",
    ),
    "laughs.docx": (
        lambda: samples.docx_of(samples.paragraph("&b;"), _LAUGHS),
        "It is damaged: it declares entities, which no Office file does.",
    ),
    "bomb.pdf": (
        lambda: samples.pdf([samples.zeros(300)]),
        "It unpacks to more than any page needs.",
    ),
    "bomb.png": (samples.image_bomb, "It is an image of more than 64 million pixels."),
}


def write_corpus(folder: Path) -> Corpus:
    """Write the files into `folder`."""
    readable = tuple(_readable(folder))
    for name, (data, _) in _BROKEN.items():
        _write(folder / "broken" / name, data())
    reasons = {f"broken/{name}": reason for name, (_, reason) in _BROKEN.items()}
    return Corpus(folder, readable, reasons)


def _readable(folder: Path) -> list[ExpectedFile]:
    text = f"# Rules\n\n{price_sentence('Dandelion')}.\n"
    front = f"---\ncategory: people\ntitle: T\n---\n{text}".encode()
    _write(folder / "handbook.md", front)
    _write(folder / "plans" / "drawn.pdf", _DRAWN)
    drawn = ExpectedFile(
        "plans/drawn.pdf", "drawn", "plans/drawn.pdf#page=2", "plans", picture=True
    )
    known = [ExpectedFile("handbook.md", "Dandelion", "handbook.md", "people"), drawn]
    for files, anchor in ((_TEXTS, ""), (_PDFS, "#page=2"), (_PICTURES, "")):
        for name, (data, thing) in files.items():
            _write(folder / name, data)
            top, slash, _ = name.partition("/")
            is_image = files is _PICTURES
            known.append(ExpectedFile(name, thing, name + anchor, top if slash else "", is_image))
    return known


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
