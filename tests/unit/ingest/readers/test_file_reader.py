"""Reads each file type as text or Markdown, with its images."""

from __future__ import annotations

from datetime import date, datetime
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from ingest.document import Content, UnreadableDocument
from ingest.readers.file_reader import FILE_TYPES, read_file
from ingest.readers.html import html_to_markdown
from ingest.readers.image_files import MAX_BYTES, MAX_IMAGES, MAX_SIDE
from ingest.readers.tables import markdown_blocks, markdown_table
from tests.support import sample_files as samples


def content(folder: Path, name: str, data: bytes | str) -> Content:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_file(path)


def text(folder: Path, name: str, data: bytes | str) -> str:
    return "\n\n".join(page.text for page in content(folder, name, data).pages)


def reason(folder: Path, name: str, data: bytes | str) -> str:
    with pytest.raises(UnreadableDocument) as caught:
        content(folder, name, data)
    return str(caught.value)


def test_encrypted_and_old_office_files_are_told_apart(tmp_path: Path) -> None:
    old = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)
    encrypted = old + "EncryptedPackage".encode("utf-16-le")

    assert reason(tmp_path, "a.docx", encrypted).startswith("It is encrypted: ")
    assert reason(tmp_path, "b.docx", old) == "Its content is not what its name says."


def test_image_of_too_many_pixels_says_how_many_are_allowed(tmp_path: Path) -> None:
    sentence = "It is an image of more than 64 million pixels."

    assert reason(tmp_path, "a.png", samples.image_bomb()) == sentence


def test_front_matter_sets_the_category(tmp_path: Path) -> None:
    document = content(tmp_path, "a.md", "---\r\ncategory: ' people '\r\n---\r\n# Rules\r\n")

    assert document.category == "people"
    assert [page.text for page in document.pages] == ["# Rules\n"]


@pytest.mark.parametrize(
    "start", ["---\nA text between rules.\n---\n", "---\na: [\n---\n", "\n---\ncategory: x\n---\n"]
)
def test_invalid_front_matter_stays_in_the_text(tmp_path: Path, start: str) -> None:
    document = content(tmp_path, "a.md", start + "Text.")

    assert document.category is None
    assert document.pages[0].text == start + "Text."


def test_front_matter_title_is_the_pages_title(tmp_path: Path) -> None:
    start = "---\ntitle: Leave policy\n---\n"

    [page] = content(tmp_path, "a.md", f"{start}## Sick leave\n\nText.").pages
    [same] = content(tmp_path, "b.md", f"{start}# Leave policy\n\nText.").pages

    assert (page.title, same.title) == ("Leave policy", "")


RST = """\
=====
Leave
=====

Who may be away.

Sick leave
==========

Call first::

  # a comment of a shell

Unpaid
------

+-----+-----+
| Day | Pay |
+-----+-----+

----

End.
"""


def test_underlined_titles_of_rst_are_headings(tmp_path: Path) -> None:
    markdown = text(tmp_path, "a.rst", RST)

    lines = [line for line in markdown.splitlines() if line.startswith("#")]
    assert lines == ["# Leave", "## Sick leave", "### Unpaid"]
    assert "+-----+-----+\n| Day | Pay |" in markdown
    assert "----\n\nEnd." in markdown


def test_underlined_titles_of_markdown_are_headings(tmp_path: Path) -> None:
    source = "Leave\n=====\n\nSick leave\n---\n\n- one\n---\n\n| a | b |\n---\n```\nx\n===\n```"

    markdown = text(tmp_path, "a.md", source)

    assert markdown.split() == "# Leave ## Sick leave - one --- | a | b | --- ``` x === ```".split()


@pytest.mark.parametrize("name", ["notes.rst", "pay.py", "LICENSE", "settings.toml", "a.b.unknown"])
def test_utf8_text_is_read_under_any_name(tmp_path: Path, name: str) -> None:
    assert text(tmp_path, name, "Grüße für 5 €") == "Grüße für 5 €"


@pytest.mark.parametrize("data", ["Grüße".encode("latin-1"), b"a\0b", b"text " * 20_000 + b"\xff"])
def test_other_data_without_a_known_suffix_is_named(tmp_path: Path, data: bytes) -> None:
    expected = "There is no reader for this type of file."

    assert reason(tmp_path, "data.bin", data) == expected


def test_generated_text_is_named(tmp_path: Path) -> None:
    search_index = "Search.setIndex({" + '"list": [[310, 13]], ' * 2000 + "})"

    assert reason(tmp_path, "searchindex.js", search_index).startswith(
        "It is generated or minified"
    )
    assert text(tmp_path, "notes", "One line of a paragraph. " * 300)


@pytest.mark.parametrize("value", ["[a, b]", "7", "''"])
def test_invalid_category_is_ignored(tmp_path: Path, value: str) -> None:
    assert content(tmp_path, "a.md", f"---\ncategory: {value}\n---\nText.").category is None


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_text_encodings_are_detected(tmp_path: Path, encoding: str) -> None:
    assert text(tmp_path, "a.txt", "Grüße für 5 €".encode(encoding)) == "Grüße für 5 €"


def test_invalid_characters_are_replaced(tmp_path: Path) -> None:
    assert (
        text(tmp_path, "a.json", r'{"a": "x\u0000y\ud800z"}') == "a: x y\N{REPLACEMENT CHARACTER}z"
    )


PAGE = """<title>Plans</title><body><!-- no --><nav>Home</nav>
<h2>Dental <b>care</b></h2>Text in <i>a</i> line<br>and the next
<ul><li>one<ul><li>sub</ul><li>two</ul><ol><li><p>first<p>more<li>second</ol><pre>  x = 1
y</pre><div hidden>secret</div><dl><dt>Term<dd>Meaning</dl><img alt="A chart" src="data:x">"""


def test_html_is_converted_to_markdown() -> None:
    assert html_to_markdown(PAGE).split("\n\n") == [
        "## Dental care",
        "Text in a line\nand the next",
        "- one\n  - sub\n- two",
        "1. first\n   more\n2. second",
        "```\n  x = 1\ny\n```",
        "Term",
        "Meaning",
        "A chart",
    ]


def test_row_spans_are_repeated_and_column_spans_empty() -> None:
    rows = "<tr><th>A<th>B|C<th>D<tr><td rowspan=2>r<td colspan=2>wide<tr><td>1<td>2"

    markdown = html_to_markdown(f"<table><caption>Costs</caption>{rows}</table>")

    assert markdown == ("Costs\n\n| A | B\\|C | D |\n|---|---|---|\n| r | wide |  |\n| r | 1 | 2 |")


def test_excessive_span_is_limited() -> None:
    markdown = html_to_markdown(
        "<table><tr><th>A<th>B<tr><td colspan=999999999 rowspan=9999999999>x</table>"
    )

    assert "| x |" in markdown
    assert len(markdown) < 1000


def test_layout_table_is_not_a_table() -> None:
    markdown = html_to_markdown("<table><tr><td><h1>Plans</h1><p>One</p><ul><li>a</ul></table>")

    assert markdown == "# Plans\n\nOne\n\n- a"


TEXT_SUFFIXES = "csv htm html json jsonl markdown md ndjson rst tsv txt xhtml".split()


@pytest.mark.parametrize("suffix", TEXT_SUFFIXES)
def test_each_type_of_text_is_read(suffix: str, tmp_path: Path) -> None:
    data = '{"a": "word"}' if "json" in suffix else "<p>word</p>" if "htm" in suffix else "word"

    assert "word" in text(tmp_path, f"a.{suffix}", data)


def test_xhtml_is_read() -> None:
    markdown = html_to_markdown(
        '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><p>a</p>'
    )

    assert markdown == "a"


def test_deeply_nested_html_keeps_its_text() -> None:
    markdown = html_to_markdown("<div>" * 20_000 + "deep" + "</div>" * 20_000 + "<p>after</p>")

    assert markdown.split() == ["deep", "after"]


@pytest.mark.parametrize("declared", ["latin-1", "utf-8", "utf-16", "no-such-thing"])
def test_wrong_declared_encoding_is_ignored(tmp_path: Path, declared: str) -> None:
    markdown = text(tmp_path, "a.html", f"<meta charset={declared}><p>Preise in Euro".encode())

    assert markdown == "Preise in Euro"


def test_docx_has_headings_and_tables_without_images(tmp_path: Path) -> None:
    markdown = text(
        tmp_path, "a.docx", samples.docx("Plans", "What they cost.", [["A", "B"], ["1", "2"]])
    )

    assert markdown == "## Plans\n\nWhat they cost.\n\n| A | B |\n|---|---|\n| 1 | 2 |"


def test_docx_title_is_above_its_headings(tmp_path: Path) -> None:
    parts = (("Plans", "Title"), ("Dental", "Heading1"), ("Costs", "Heading2"))
    body = "".join(samples.paragraph(text, style) for text, style in parts)

    assert text(tmp_path, "a.docx", samples.docx_of(body)) == "# Plans\n\n## Dental\n\n### Costs"


def test_slide_is_a_section_with_table_and_notes(tmp_path: Path) -> None:
    deck = samples.pptx("Prices", "By item", "Say why.", [["Item", "Price"], ["Desk", "12"]])

    markdown = text(tmp_path, "a.pptx", deck)

    assert markdown.split("\n\n") == [
        "# Slide 1: Prices",
        "By item",
        "| Item | Price |\n|---|---|\n| Desk | 12 |",
        "Notes: Say why.",
    ]


def test_cell_values_are_formatted(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        ["Price list", None, None],
        ["Item", "Price", "Since"],
        ["Desk", 12.0, date(2026, 1, 31)],
        ["Chair", 0.1 + 0.2, datetime(2026, 1, 31, 9, 30)],
        ["Sold", True, None],
    ]

    markdown = text(tmp_path, "a.xlsx", samples.xlsx({"Prices": rows}))

    assert markdown.splitlines() == [
        *("# Prices", "", "Price list", ""),
        *("| Item | Price | Since |", "|---|---|---|", "| Desk | 12 | 2026-01-31 |"),
        *("| Chair | 0.3 | 2026-01-31 09:30:00 |", "| Sold | True |  |"),
    ]


def test_empty_sheets_and_slides_are_dropped(tmp_path: Path) -> None:
    book = samples.xlsx({"Sheet1": [["Item"], ["Desk"]], "Sheet2": [], "Sheet3": [[None, ""]]})

    assert text(tmp_path, "a.xlsx", book) == "# Sheet1\n\n| Item |\n|---|\n| Desk |"
    assert reason(tmp_path, "b.xlsx", samples.xlsx({"Sheet1": []})) == "It holds no text."
    assert reason(tmp_path, "c.pptx", samples.pptx("", "", "", [["", ""]])) == "It holds no text."


def test_rows_after_a_gap_get_the_previous_header() -> None:
    rows = [["Item", "Price"], ["Desk", "12"], [], ["Chair", "7"], [], ["Name", "City"], ["A", "B"]]

    assert list(markdown_blocks(rows)) == [
        "| Item | Price |\n|---|---|\n| Desk | 12 |",
        "| Item | Price |\n|---|---|\n| Chair | 7 |",
        "| Name | City |\n|---|---|\n| A | B |",
    ]


def test_cell_text_is_escaped() -> None:
    markdown = markdown_table([["a|b", "two\nlines"], ["\\", ""], ["1", "2", "3"]])

    assert markdown == "| a\\|b | two lines |  |\n|---|---|---|\n| \\\\ |  |  |\n| 1 | 2 | 3 |"


@pytest.mark.parametrize("part", [",", ";", "\t", "|"])
def test_csv_delimiter_is_detected(tmp_path: Path, part: str) -> None:
    rows = [("name", "note"), ("Anna", f'"a {part} ""b"""'), ("Ben", "none")]

    markdown = text(tmp_path, "a.csv", "\n".join(part.join(row) for row in rows))

    escaped = "\\|" if part == "|" else part.strip()
    note = f'a {escaped} "b"' if escaped else 'a "b"'
    assert markdown == f"| name | note |\n|---|---|\n| Anna | {note} |\n| Ben | none |"


@pytest.mark.parametrize("odd", ["\u2028", "\x0b", "\x85", "\x1e"])
def test_csv_rows_end_only_at_line_ends(tmp_path: Path, odd: str) -> None:
    markdown = text(tmp_path, "a.csv", f"name,note\r\nAnna,one{odd}two\r\nBen,none\r\n")

    assert markdown.splitlines()[2:] == ["| Anna | one two |", "| Ben | none |"]


def test_json_values_have_their_path(tmp_path: Path) -> None:
    markdown = text(
        tmp_path,
        "a.json",
        '{"shop": {"open": true, "staff": [{"name": "Anna"}, {"name": "Ben", "pay": 1.10}]},'
        ' "tags": ["a", "b"], "none": null, "empty": {}}',
    )

    assert markdown.split("\n\n") == [
        "shop.open: true\nshop.staff[0].name: Anna\n"
        "shop.staff[1].name: Ben\nshop.staff[1].pay: 1.10",
        "tags: a, b",
        "none: null",
        "empty: ",
    ]


def test_office_bomb_is_rejected(tmp_path: Path) -> None:
    bomb = samples.docx_of("", more={"word/x.xml": b" " * 65 * 2**20})

    assert reason(tmp_path, "a.docx", bomb) == "It unpacks to more than 64 MB."


def test_picture_of_a_docx_is_left_out_and_its_description_kept(tmp_path: Path) -> None:
    data = samples.docx_with_image("The plan:", "a map of the office")

    assert text(tmp_path, "a.docx", data) == "The plan: a map of the office"


def test_json_texts_are_paragraphs(tmp_path: Path) -> None:
    assert text(tmp_path, "a.json", '["one", 2, null]') == "one\n\n2\n\nnull"
    assert text(tmp_path, "b.json", '"one"') == "one"


def test_json_records_are_paragraphs(tmp_path: Path) -> None:
    rows = '{"id": 1, "name": "Anna"}\n\n{"id": 2, "name": "Ben"}\n'

    expected = "id: 1\nname: Anna\n\nid: 2\nname: Ben"

    assert text(tmp_path, "a.jsonl", rows) == expected
    assert text(tmp_path, "b.json", rows) == expected
    assert text(tmp_path, "c.json", f"[{','.join(rows.split(chr(10) * 2))}]") == expected


@pytest.mark.parametrize(
    ("data", "line"), [("{", 1), ('{"a": 1}\n{"a"}', 2), ("[1,\n2,\n3 4]", 3), ("nothing", 1)]
)
def test_invalid_json_error_names_the_line(tmp_path: Path, data: str, line: int) -> None:
    assert reason(tmp_path, "a.json", data) == f"It is not valid JSON (line {line})."


def test_deeply_nested_json_is_rejected(tmp_path: Path) -> None:
    assert reason(tmp_path, "a.json", "[" * 100_000) == "It is JSON that is nested too deeply."


def only_image(document: Content) -> Image.Image:
    [page] = document.pages
    [data] = page.images
    assert len(data) <= MAX_BYTES
    return Image.open(BytesIO(data))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_large_image_is_scaled_down(tmp_path: Path, form: str) -> None:
    image = only_image(content(tmp_path, "a.png", samples.image(form, (3000, 1500))))

    assert image.size == (MAX_SIDE, MAX_SIDE // 2)
    assert image.format in ("PNG", "JPEG")


def test_image_of_noise_is_within_byte_limit(tmp_path: Path) -> None:
    buffer = BytesIO()
    Image.effect_noise((1400, 1400), 90).save(buffer, "PNG")

    assert only_image(content(tmp_path, "a.png", buffer.getvalue())).size == (MAX_SIDE, MAX_SIDE)


def test_transparency_becomes_white_and_rotation_is_applied(tmp_path: Path) -> None:
    clear, turned = BytesIO(), BytesIO()
    drawn = Image.new("RGBA", (100, 100), (0, 0, 0, 0))
    drawn.paste("navy", (50, 50, 80, 80))
    drawn.save(clear, "PNG")
    exif = Image.Exif()
    exif[0x0112] = 6
    wide = Image.new("RGB", (200, 100), "red")
    wide.paste("white", (150, 0, 200, 50))
    wide.save(turned, "JPEG", exif=exif)

    assert only_image(content(tmp_path, "a.png", clear.getvalue())).getpixel((5, 5)) == (255,) * 3
    upright = only_image(content(tmp_path, "a.jpg", turned.getvalue()))
    assert upright.size == (100, 200)
    assert not upright.getexif()


def test_16_bit_greys_are_scaled(tmp_path: Path) -> None:
    buffer = BytesIO()
    shades = Image.linear_gradient("L").convert("I").point(lambda grey: grey * 200 + 9000)
    shades.convert("I;16").save(buffer, "TIFF")

    image = only_image(content(tmp_path, "a.tif", buffer.getvalue()))

    assert image.getpixel((9, 0)) == 0
    assert image.getpixel((9, 128)) in range(120, 136)
    assert image.getpixel((9, 255)) == 255


@pytest.mark.parametrize("colour", [(0, 0, 128, 255), (0, 0, 0, 0)])
def test_image_file_of_one_colour_is_rejected(
    tmp_path: Path, colour: tuple[int, int, int, int]
) -> None:
    buffer = BytesIO()
    Image.new("RGBA", (300, 200), colour).save(buffer, "PNG")

    assert reason(tmp_path, "a.png", buffer.getvalue()) == "It shows nothing."


def test_icon_is_rejected(tmp_path: Path) -> None:
    assert "less than 64 pixels" in reason(tmp_path, "a.png", samples.image("PNG", (50, 40)))


DRAW = b" q /Im1 Do Q"


def test_image_on_many_pages_is_extracted_once(tmp_path: Path) -> None:
    pages = [samples.lines(f"Page {number}") + DRAW for number in range(3)]

    document = content(tmp_path, "a.pdf", samples.pdf(pages, samples.image("JPEG"), (300, 200)))

    assert [len(page.images) for page in document.pages] == [1, 0, 0]


def test_unused_and_small_pdf_images_are_dropped(tmp_path: Path) -> None:
    undrawn = samples.pdf([samples.lines("One")], samples.image("JPEG"), (300, 200))
    small = samples.image("JPEG", (60, 60))
    tiny = samples.pdf([samples.lines("One") + DRAW], small, (60, 60))

    for data in (undrawn, tiny):
        [page] = content(tmp_path, "a.pdf", data).pages
        assert page.images == ()


def test_pdf_image_of_one_colour_is_dropped(tmp_path: Path) -> None:
    buffer = BytesIO()
    Image.new("RGB", (300, 200), "navy").save(buffer, "JPEG")
    data = samples.pdf([samples.lines("One") + DRAW], buffer.getvalue(), (300, 200))

    assert [page.images for page in content(tmp_path, "a.pdf", data).pages] == [()]


def test_dot_leaders_are_shortened(tmp_path: Path) -> None:
    data = samples.pdf([samples.lines("Naming " + ". " * 60 + "3", "Use" + "." * 70 + "4")])

    assert text(tmp_path, "a.pdf", data) == "Naming ... 3\n\nUse ... 4"


@pytest.mark.parametrize("broken", [b"", b"\xff\xd8\xff\xe0 no picture", b"x" * 5000])
def test_damaged_pdf_image_is_dropped(tmp_path: Path, broken: bytes) -> None:
    data = samples.pdf([samples.lines("The text") + DRAW], broken, (300, 200))

    [page] = content(tmp_path, "a.pdf", data).pages

    assert (page.text, page.images) == ("The text", ())


def test_scanned_pdf_is_read_as_images(tmp_path: Path) -> None:
    document = content(tmp_path, "a.pdf", samples.pdf([DRAW], samples.image("JPEG"), (300, 200)))

    [page] = document.pages
    assert (page.number, page.text, len(page.images)) == (1, "", 1)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Leave policy", ["Leave policy", ""]),
        ("Microsoft Word - leave.docx", ["", ""]),
        ("C:\\leave", ["", ""]),
        ("untitled", ["", ""]),
        ("", ["", ""]),
    ],
)
def test_pdf_title_is_that_of_pages_without_it(
    tmp_path: Path, title: str, expected: list[str]
) -> None:
    pages = samples.pdf([samples.lines("Call first."), samples.lines("Leave policy, page 2")])

    document = content(tmp_path, "a.pdf", samples.with_title(pages, title))

    assert [page.title for page in document.pages] == expected


def test_number_of_images_is_limited(tmp_path: Path) -> None:
    document = content(tmp_path, "a.pdf", samples.many_images(MAX_IMAGES + 5))

    assert sum(len(page.images) for page in document.pages) == MAX_IMAGES


@pytest.mark.parametrize("suffix", FILE_TYPES)
def test_executable_is_rejected_under_any_name(tmp_path: Path, suffix: str) -> None:
    program = b"\x7fELF\2\1\1\0" + bytes(range(256)) * 20

    assert reason(tmp_path, f"a{suffix}", program) == "Its content is not what its name says."


@pytest.mark.parametrize("start", ["BMW is a maker of cars.", "GIF8 is a word", "RIFF WEBP", "PK"])
def test_text_that_starts_like_another_type_is_text(tmp_path: Path, start: str) -> None:
    assert text(tmp_path, "a.txt", start) == start


def test_file_size_limit_is_configurable(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text" * 2**18)

    with pytest.raises(UnreadableDocument, match=r"^It is larger than 0\.5 MB\.$"):
        read_file(tmp_path / "a.txt", 2**19)
