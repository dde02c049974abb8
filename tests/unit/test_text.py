"""The estimate of tokens against the real tokenizer."""

import base64
import json
from pathlib import Path
from random import Random
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits

import pytest

from shared.text import SLICE_LENGTH, count_tokens
from tests.support.tokenizer import load_tokenizer

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = ROOT / "shared" / "data" / "documents"
PDF = DOCUMENTS / "plans" / "northwind_health_plus.pdf"

TEXTS = {
    "English": "The deductible of the plan is $1,500 for one person (and $3,000 for a family). "
    * 9,
    "German": "Die Krankenversicherung übernimmt Zahnreinigungen, Brillengläser und Hörgeräte. "
    * 9,
    "Arabic": "تغطي الخطة زيارات غرفة الطوارئ في أي مستشفى داخل الشبكة أو خارجها. " * 9,
    "Chinese": "该计划涵盖网络内外任何医院的急诊室就诊,自付费用为一百五十美元。" * 9,
    "Hindi": "यह योजना किसी भी अस्पताल में आपातकालीन कक्ष की यात्राओं को कवर करती है। " * 9,
    "Japanese": "このプランは、ネットワーク内外の病院での救急外来を対象としています。" * 9,
    "Russian": "План покрывает посещение отделения неотложной помощи в любой больнице. " * 9,
    "emoji": "👩🏽‍💻🎉🏳️‍🌈 👨‍👩‍👧‍👦 ✅ 🚑💊🦷 " * 9,
    "base64": base64.b64encode(PDF.read_bytes()).decode(),
    "ids": "3f2504e0-4f89-11d3-9a0c-0305e82c3301 INV-2024-000871 0x7ffee4b2 AbCdEf_12_xY\n" * 9,
    "JSON": json.dumps({"rows": [{"id": i, "price": i / 7, "ok": None} for i in range(40)]}),
    "table": "| tier | copay |\n|---|---|\n" + "| 1 | $10 |\n| 2 | $35 |\n" * 20,
    "code": "def f(x: int) -> int:\n    return (x ** 2) if x >= 0 else -x  # why\n\n" * 9,
    "digits": "1234567890" * 40,
    "blanks": "a    b\t\t\tc\n\n\n\n   d" * 20,
    "capitals": "HTTPServer IOError WWW ABCDEFGHIJKLMNOPQRSTUVWXYZ " * 9,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_estimate_is_never_below_the_real_count(kind: str) -> None:
    text = TEXTS[kind]

    real = load_tokenizer().count(text)

    assert real <= count_tokens(text)


@pytest.mark.parametrize("name", ["README.md", *(path.name for path in DOCUMENTS.rglob("*.[mt]*"))])
def test_estimate_is_not_below_for_any_line_of_our_texts(name: str) -> None:
    paths = (path for path in (ROOT / name, *DOCUMENTS.rglob(name)) if path.exists())
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]

    real = load_tokenizer()
    under = [line for line in lines if real.count(line) > count_tokens(line)]

    assert under == []


def test_plain_english_is_overestimated_threefold_at_most() -> None:
    real = load_tokenizer().count(TEXTS["English"])

    assert count_tokens(TEXTS["English"]) < 3 * real


@pytest.mark.parametrize("alphabet", [ascii_lowercase, ascii_uppercase, ascii_letters + digits])
def test_random_letters_are_underestimated_by_a_third_at_most(alphabet: str) -> None:
    text = "".join(Random(1).choices(alphabet, k=600))

    real = load_tokenizer().count(text)

    assert real <= 1.5 * count_tokens(text)


def test_empty_text_has_no_tokens() -> None:
    assert count_tokens("") == 0


def test_lone_surrogate_is_counted() -> None:
    assert count_tokens("\ud800") > 0


def test_count_of_a_text_is_at_most_the_sum_of_its_lines() -> None:
    lines = TEXTS["code"].splitlines(keepends=True)

    total = sum(count_tokens(line) for line in lines)

    assert count_tokens("".join(lines)) <= total


def test_count_of_a_long_text_is_the_sum_of_its_parts() -> None:
    part = "The premium is $55 a month. "
    number = 4 * SLICE_LENGTH // len(part)

    assert count_tokens(part * number) == pytest.approx(count_tokens(part) * number, rel=0.1)
