"""Makes small documents of every file type, valid and malicious, as bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from random import Random
from zipfile import ZIP_DEFLATED, ZipFile

from openpyxl import Workbook
from PIL import Image, ImageDraw
from pptx import Presentation
from pptx.util import Inches
from pypdf import PdfReader, PdfWriter

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = f"""<Types xmlns="{_PACKAGE}/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/><Override
 PartName="/word/document.xml" ContentType="{_OFFICE}.document.main+xml"/></Types>"""
_RELS = f"""<Relationships xmlns="{_PACKAGE}/relationships"><Relationship
 Id="r1" Type="{_RELATION}/officeDocument" Target="word/document.xml"/></Relationships>"""


def zip_parts(parts: Mapping[str, str | bytes]) -> bytes:
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def docx_of(body: str, before: str = "", more: Mapping[str, bytes] | None = None) -> bytes:
    """A DOCX by the XML of its body; `before` stands before the document's element."""
    document = f'{before}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    parts = {"[Content_Types].xml": _TYPES, "_rels/.rels": _RELS, "word/document.xml": document}
    return zip_parts({**parts, **(more or {})})


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def docx(heading: str, text: str, rows: Sequence[Sequence[str]]) -> bytes:
    cells = ("".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    lines = "".join(f"<w:tr>{line}</w:tr>" for line in cells)
    return docx_of(paragraph(heading, "Heading1") + paragraph(text) + f"<w:tbl>{lines}</w:tbl>")


def docx_with_image(text: str, description: str) -> bytes:
    """A DOCX of a paragraph that ends with a picture."""
    main = "http://schemas.openxmlformats.org/drawingml/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    drawing = (
        f'<w:drawing xmlns:wp="{main}/wordprocessingDrawing" xmlns:a="{main}/main" '
        f'xmlns:pic="{main}/picture" xmlns:r="{office}"><wp:inline>'
        f'<wp:docPr id="1" name="Picture" descr="{description}"/><a:graphic><a:graphicData>'
        '<pic:pic><pic:blipFill><a:blip r:embed="rId1"/></pic:blipFill></pic:pic>'
        "</a:graphicData></a:graphic></wp:inline></w:drawing>"
    )
    relation = f'Id="rId1" Type="{office}/image" Target="media/image.png"'
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f"<Relationship {relation}/></Relationships>"
    )
    body = f"<w:p><w:r><w:t>{text}</w:t></w:r><w:r>{drawing}</w:r></w:p>"
    more = {
        "word/_rels/document.xml.rels": relations.encode(),
        "word/media/image.png": image("PNG"),
    }
    return docx_of(body, more=more)


def pptx(title: str, text: str, notes: str, rows: Sequence[Sequence[str]]) -> bytes:
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = title
    slide.placeholders[1].text = text
    slide.notes_slide.notes_text_frame.text = notes
    place = [Inches(side) for side in (1, 4, 6, 1)]
    table = slide.shapes.add_table(len(rows), len(rows[0]), *place).table
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            table.cell(number, column).text = cell
    buffer = BytesIO()
    deck.save(buffer)
    return buffer.getvalue()


def xlsx(sheets: Mapping[str, Iterable[Sequence[object]]], hidden: Sequence[str] = ()) -> bytes:
    book = Workbook()
    del book["Sheet"]
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
        sheet.sheet_state = "hidden" if title in hidden else "visible"
    buffer = BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def endless_xlsx(rows: int = 30_000) -> bytes:
    """A small workbook whose rows each end in the last possible column: minutes of work."""
    cells = "".join(f'<row r="{n}"><c r="XFD{n}"/></row>' for n in range(1, rows + 1))
    with ZipFile(BytesIO(xlsx({"Sheet": [["a"]]}))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"].partition(b"<sheetData>")[0]
    end = f"<sheetData>{cells}</sheetData></worksheet>".encode()
    return zip_parts({**parts, "xl/worksheets/sheet1.xml": sheet + end})


def lines(*texts: str) -> bytes:
    """A PDF page's stream that writes each text on a line of its own."""
    operators = " ".join(f"({text}) Tj 0 -20 Td" for text in texts)
    return f"BT /F1 12 Tf 40 700 Td {operators} ET".encode("latin-1")


def pdf(pages: Sequence[bytes], jpeg: bytes = b"", size: tuple[int, int] = (0, 0)) -> bytes:
    """A PDF by its pages' streams, which may draw the picture `jpeg` as /Im1 or /Im0."""
    objects = [b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", _jpeg(jpeg, size)]
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(len(pages)))
    tree = f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"
    objects += [tree.encode(), b"<< /Type /Catalog /Pages 3 0 R >>"]
    for number, page in enumerate(pages):
        objects += [_page(6 + 2 * number), _stream(page)]
    return _file(objects)


def _jpeg(data: bytes, size: tuple[int, int]) -> bytes:
    head = f"/Type /XObject /Subtype /Image /Width {size[0]} /Height {size[1]} /BitsPerComponent 8"
    return _stream(data, f"{head} /ColorSpace /DeviceRGB /Filter /DCTDecode")


def _page(contents: int) -> bytes:
    used = "/Resources << /Font << /F1 1 0 R >> /XObject << /Im0 2 0 R /Im1 2 0 R >> >>"
    head = "<< /Type /Page /Parent 3 0 R /MediaBox [0 0 600 800]"
    return f"{head} {used} /Contents {contents} 0 R >>".encode()


def _stream(data: bytes, head: str = "") -> bytes:
    # What begins as zlib does was compressed by the caller.
    packed = " /Filter /FlateDecode" if data[:1] == b"\x78" else ""
    start = f"<< {head}{packed} /Length {len(data)} >>\nstream\n".encode()
    return start + data + b"\nendstream"


def _file(objects: Sequence[bytes]) -> bytes:
    text, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(text))
        text += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    end = b"trailer << /Size %d /Root 4 0 R >>\nstartxref\n%d\n%%%%EOF" % (count, len(text))
    return text + b"xref\n0 %d\n0000000000 65535 f \n" % count + table + end


def many_images(number: int) -> bytes:
    """A PDF with a different picture on each of its pages."""
    writer = PdfWriter()
    for seed in range(number):
        page = pdf([b"q /Im1 Do Q"], image("JPEG", seed=seed), (300, 200))
        writer.append(BytesIO(page))
    buffer = BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def with_title(data: bytes, title: str) -> bytes:
    """A PDF with a title in its properties."""
    writer = PdfWriter(BytesIO(data))
    writer.add_metadata({"/Title": title})
    buffer = BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def encrypted(data: bytes, user: str, owner: str) -> bytes:
    writer = PdfWriter(PdfReader(BytesIO(data)))
    writer.encrypt(user, owner, algorithm="AES-256")
    buffer = BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def image(form: str, size: tuple[int, int] = (300, 200), seed: int = 1) -> bytes:
    """A picture of boxes, different for each seed."""
    image, chance = Image.new("RGB", size, "white"), Random(seed)
    pen = ImageDraw.Draw(image)
    for _ in range(12):
        x, y = chance.randrange(size[0] - 40), chance.randrange(size[1] - 30)
        pen.rectangle((x, y, x + 40, y + 30), fill=tuple(chance.choices(range(256), k=3)))
    buffer = BytesIO()
    image.save(buffer, form)
    return buffer.getvalue()


def zeros(megabytes: int) -> bytes:
    """Zlib's form of so many megabytes of blanks: a thousandth of that."""
    packer = zlib.compressobj(9)
    block = b" " * 2**20
    return b"".join(packer.compress(block) for _ in range(megabytes)) + packer.flush()


def image_bomb() -> bytes:
    """A PNG of 30,000 by 30,000 pixels in a few kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return len(data).to_bytes(4, "big") + whole + zlib.crc32(whole).to_bytes(4, "big")

    side = (30_000).to_bytes(4, "big")
    head = chunk(b"IHDR", side + side + bytes((8, 2, 0, 0, 0)))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zeros(8)) + chunk(b"IEND", b"")
