"""Made-up projects of a few lines: what goes with a deleted file, and what stays."""

from __future__ import annotations

from textwrap import dedent

import pytest

from scripts.parts.catalog import Catalog, Part, PartsError
from scripts.parts.python.engine import is_name_of, remove_code
from scripts.parts.removal import Removal, Tree

OLD = "def old(x: int = 0) -> str: ...\nclass Old: ...\nVALUE = 1\n"


def remove(files: dict[str, str], part: Part | None = None) -> tuple[Tree, Removal]:
    """Delete the files of the part: shared/old.py, unless it says otherwise."""
    part = part or Part(gives="old", paths=("shared/old.py",))
    tree: Tree = {"pyproject.toml": "", "shared/old.py": OLD}
    tree |= {path: dedent(text) for path, text in files.items()}
    removal = Removal(Catalog(parts={"old": part}), ("old",), ("old",), dict(tree))
    removal.settings |= set(part.settings)
    removal.delete(tree, [path for path in tree if part.owns(path)])
    remove_code(tree, removal)
    return tree, removal


def rest_of(text: str) -> str:
    """What stays of a module that uses the names of the deleted one."""
    imports = "from shared.old import VALUE, Old, old\n"
    tree, _ = remove({"shared/app.py": f"{imports}\n\n{dedent(text)}"})
    return str(tree["shared/app.py"]).strip()


STATEMENTS = {
    "an element": ("PARTS = [1, old, 2]", "PARTS = [1, 2]"),
    "a key": ("PARTS = {'a': 1, 'b': old}", 'PARTS = {"a": 1}'),
    "a row": ("PARTS = [('a', 1), ('b', old)]", 'PARTS = [("a", 1)]'),
    "the only element": ("PARTS = [old]\nprint(1)", "print(1)"),
    "a keyword": ("print(1, end=old())", "print(1)"),
    "a call": ("print(old())\nprint(1)", "print(1)"),
    "an operand of a union": ("def f(x: int | Old) -> int: ...", "def f(x: int) -> int: ..."),
    "an operand of or": ("x = old() or 1", "x = 1"),
    "a condition": ("x = 1 if old() else 2", "x = 2"),
    "a class of isinstance": ("x = isinstance(1, (int, Old))", "x = isinstance(1, (int,))"),
    "an if": ("if old():\n    print(1)", ""),
    "an if with else": ("if old():\n    print(1)\nelse:\n    print(2)", "print(2)"),
    "an elif": (
        "if x:\n    print(1)\nelif old():\n    print(2)\nelse:\n    print(3)",
        "if x:\n    print(1)\nelse:\n    print(3)",
    ),
    "a test for absence": ("if old() is None:\n    print(1)", "print(1)"),
    "the only export": ('__all__ = ["VALUE"]\nprint(1)', "print(1)"),
    "a variable": ("x = old()\ny = str(x)\nprint(2)", "print(2)"),
    "one of two variables": ("x, y = old(), 2", "y = 2"),
    "a variable with another value": ("x = 1\nif y:\n    x = old()", "x = 1"),
    "a loop": ("for each in old():\n    print(each)", ""),
    "a with": ("with old() as it:\n    print(it)", ""),
    "a handler": ("try:\n    print(1)\nexcept Old:\n    print(2)", "print(1)"),
    "an export": ('__all__ = ["VALUE", "A"]\nA = 1', '__all__ = ["A"]\nA = 1'),
    "a base": ("class A(Old):\n    x = 1\n\nprint(1)", "print(1)"),
    "the last of two bases": ("class A(str, Old):\n    x = 1", "class A(str):\n    x = 1"),
    "a decorator": ("@old\ndef f() -> int: ...", "def f() -> int: ..."),
}


@pytest.mark.parametrize("text, rest", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_smallest_thing_that_uses_a_dead_name_goes(text: str, rest: str) -> None:
    assert rest_of(text) == rest


FUNCTIONS = {
    "a return in a branch": (
        "def make(a):\n    if a:\n        b = 1\n        return old(b)\n    return 2",
        "def make(a):\n    return 2",
    ),
    "the last return": ("def make(a):\n    if a:\n        return 1\n    return old()", ""),
    "a return in with": ("def make(a):\n    with a:\n        return old()", ""),
    "the only statement": ('def make(a):\n    """Make."""\n    old(a)', ""),
    "a local import": (
        "def make(a):\n    from shared.old import old as new\n    if a:\n        return new()\n"
        "    return 1",
        "def make(a):\n    return 1",
    ),
    "a parameter with a dead type": (
        "def make(a: int, b: Old) -> int:\n    print(b)\n    return a\n\n\nmake(1, 2)",
        "def make(a: int) -> int:\n    return a\n\n\nmake(1)",
    ),
    "a parameter that can only be None": (
        "def make(a, b: Old | None = None):\n    if b:\n        print(b)\n    return a\n\n\n"
        "make(1)",
        "def make(a):\n    return a\n\n\nmake(1)",
    ),
    "all that returns something": (
        "def make(a):\n    if a:\n        return old(a)\n    return None\n\n\nprint(a=make(1))",
        "print()",
    ),
    "a part of a text": ('def make():\n    return f"a" f"{old()}"\n\n\nprint(1)', "print(1)"),
    "a comparison with a pair": ("if x == (1, old()):\n    print(1)\n\nprint(2)", "print(2)"),
    "a local name that hides it": (
        "def make(old):\n    return old()",
        "def make(old):\n    return old()",
    ),
}


@pytest.mark.parametrize("text, rest", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_function_that_cannot_do_without_goes(text: str, rest: str) -> None:
    assert rest_of(text) == rest


def test_what_only_the_part_used_goes_across_files() -> None:
    tree, removal = remove(
        {
            "shared/old.py": "from shared.tool import helper, LIMIT\nprint(helper(), LIMIT)\n",
            "shared/tool.py": "LIMIT = 1\ndef other(): ...\ndef helper():\n    return inner()\n"
            "def inner(): ...\ndef main(): ...\n",
            "shared/app.py": "import shared.old\nfrom shared.tool import other\nother()\n",
            "tests/unit/test_tool.py": "from shared.tool import helper, other\n\n\n"
            "def test_a():\n    assert helper()\n\n\ndef test_b():\n    assert other()\n",
        }
    )

    assert tree["shared/tool.py"] == "def other(): ...\ndef main(): ...\n"
    assert "test_a" not in str(tree["tests/unit/test_tool.py"])
    assert "test_b" in str(tree["tests/unit/test_tool.py"])
    assert ("shared/tool.py", "helper") in removal.definitions


def test_field_that_nothing_reads_any_more_goes_with_its_setting() -> None:
    tree, removal = remove(
        {
            "shared/settings.py": "class Settings:\n    url: str\n    old_url: str\n",
            "shared/app.py": "from shared.old import old\n"
            "from shared.settings import Settings\n"
            "def make(settings):\n    old(settings.old_url)\n    return settings.url\n"
            "make(Settings(url='a', old_url='b'))\n",
        }
    )

    assert tree["shared/settings.py"] == "class Settings:\n    url: str\n"
    assert "old_url" not in str(tree["shared/app.py"])
    assert removal.settings == {"OLD_URL"}


def test_own_attribute_of_the_name_of_a_removed_one_stays() -> None:
    text = """
        class A:
            n: int = 0

            def f(self) -> int:
                return self.n

        class B:
            n: Old
    """

    assert "return self.n" in rest_of(dedent(text) + "print(A().f())\nprint(B().n)")


def test_attribute_with_another_value_stays() -> None:
    text = """
        class A:
            n: int = 0

            def f(self) -> int:
                self.n = old()
                return self.n
    """

    assert "return self.n" in rest_of(dedent(text) + "print(A().f())")


def test_positional_argument_of_a_removed_field_goes() -> None:
    tree, _ = remove(
        {
            "shared/box.py": "from dataclasses import dataclass\n@dataclass\nclass Box:\n"
            "    a: int\n    b: int\n",
            "shared/app.py": "from shared.box import Box\nfrom shared.old import old\n"
            "box = Box(1, 2)\nold(box.b)\nprint(box.a)\n",
        }
    )

    assert "box = Box(1)" in str(tree["shared/app.py"])


def test_test_that_uses_a_dead_name_goes_whole() -> None:
    text = """
        import pytest
        from shared.old import old

        @pytest.mark.parametrize("x", [old, 1])
        def test_stays(x): assert x

        def test_goes():
            x = old()
            assert 1

        @pytest.mark.part("old")
        def test_marked(): assert 1

        @pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.part("old"))])
        def test_case(x): assert x
    """
    tree, _ = remove({"tests/unit/test_a.py": text})
    rest = str(tree["tests/unit/test_a.py"])

    assert rest.count('parametrize("x", [1])') == 2
    assert "test_goes" not in rest
    assert "test_marked" not in rest


STEPS = {
    "a loop": "def helper():\n    x = 1\n    for each in old():\n        x += each\n    return x",
    "a call": "def helper():\n    def fill():\n        return old()\n\n    fill()\n    return 1",
    "an assignment": "def helper():\n    reply = old()\n    assert reply\n    return 1",
    "a pair": "def helper():\n    x, y = 1, old()\n    assert y\n    return x",
    "a with": "def helper():\n    with old() as it:\n        it.run()\n    return it",
}


@pytest.mark.parametrize("text", STEPS.values(), ids=STEPS.keys())
def test_helper_of_tests_goes_whole_without_one_of_its_steps(text: str) -> None:
    imports = "from shared.old import old\n\n\n"
    tree, _ = remove({"tests/support/a.py": f"{imports}{text}\n\n\nprint(1)\n"})

    assert tree["tests/support/a.py"] == "print(1)\n"


def test_helper_of_tests_stays_without_the_setting_of_a_part() -> None:
    part = Part(gives="old", paths=("shared/old.py",), settings=("OLD_URL",))
    text = 'def helper(env):\n    env.pop("OLD_URL")\n    return env\n\n\nhelper({})\n'
    tree, _ = remove({"tests/support/a.py": text}, part)

    assert tree["tests/support/a.py"] == "def helper(env):\n    return env\n\n\nhelper({})\n"


def test_test_goes_with_its_fixture() -> None:
    text = """
        import pytest
        from shared.old import old

        @pytest.fixture
        def box():
            return old()

        def test_box(box):
            assert box

        def test_other():
            assert 1
    """
    tree, _ = remove({"tests/test_a.py": text})

    assert "box" not in str(tree["tests/test_a.py"])
    assert "test_other" in str(tree["tests/test_a.py"])


def test_what_a_library_calls_stays() -> None:
    tree, _ = remove(
        {
            "shared/old.py": "from shared.app import Client\nClient().send()\n",
            "shared/app.py": "from library import Base\n\n\nclass Client(Base):\n"
            "    def send(self) -> int:\n        return 1\n",
            "shared/main.py": "from shared.app import Client\nprint(Client)\n",
        }
    )

    assert "def send" in str(tree["shared/app.py"])


@pytest.mark.parametrize(
    ("text", "is_gone"),
    [
        ("cosmosName", True),
        ("!empty(cosmosName)", True),
        ("database", True),
        ("database.id", True),
        ("the name of a database", False),
        ("searchName", False),
    ],
)
def test_text_of_a_test_is_gone_with_a_name_of_infra(text: str, is_gone: bool) -> None:
    assert is_name_of({"cosmosName", "database"}, text) == is_gone


def test_module_and_page_go_from_lists_of_tests() -> None:
    part = Part(gives="old", paths=("shared/old.py", "docs/old.md"))
    text = 'NAMES = ["shared.old", "shared.old.Old.run", "old.md", "shared/old.py", "acl.yaml"]\n'
    tree, _ = remove({"docs/old.md": "", "tests/template/a.py": text}, part)

    assert tree["tests/template/a.py"] == 'NAMES = ["acl.yaml"]\n'


def test_test_module_without_tests_goes() -> None:
    mark = 'import pytest\npytestmark = pytest.mark.part("old")\ndef test_a(): ...\n'
    tree, _ = remove(
        {
            "tests/test_a.py": mark,
            "tests/test_b.py": "from shared.old import old\ndef test_b(): old()\n",
        }
    )

    assert not [path for path in tree if path.startswith("tests/")]


def test_setting_and_route_go_from_tests() -> None:
    part = Part(gives="old", paths=("shared/old.py",), routes=("/old/*",), settings=("OLD_URL",))
    text = """
        SETTINGS = {"OLD_URL": "x", "URL": "y"}
        ROUTES = ["/old/a", "/new"]

        def test_old():
            assert call("/old/b?x=1")
    """
    tree, _ = remove({"tests/a.py": text}, part)

    assert 'SETTINGS = {"URL": "y"}' in str(tree["tests/a.py"])
    assert 'ROUTES = ["/new"]' in str(tree["tests/a.py"])
    assert "test_old" not in str(tree["tests/a.py"])


def test_read_of_a_setting_goes_where_another_class_has_its_name() -> None:
    part = Part(gives="old", paths=("shared/old.py",), settings=("OLD_URL",))
    tree, _ = remove(
        {
            "shared/settings.py": "class Settings:\n    old_url: str\n    url: str\n",
            "shared/app.py": "class A:\n    old_url: str\n\n\n"
            "def make(settings):\n    print(A().old_url)\n    print(settings.old_url)\n",
        },
        part,
    )

    assert str(tree["shared/app.py"]).endswith("    print(A().old_url)\n")


def test_name_of_a_part_that_is_not_there_stops_the_removal() -> None:
    part = Part(gives="old", paths=("shared/old.py",), names={"shared/app.py": ("gone",)})

    with pytest.raises(PartsError, match=r"shared/app\.py has no gone"):
        remove({"shared/app.py": "x = 1\n"}, part)


def test_name_of_a_part_goes() -> None:
    names = {"shared/app.py": ("f.x", '"old"')}
    part = Part(gives="old", paths=("shared/old.py",), names=names)
    text = 'KINDS = ["old", "new"]\ndef f(x, y):\n    print(x)\n    return y\nf(1, 2)\n'
    tree, _ = remove({"shared/app.py": text}, part)
    rest = 'KINDS = ["new"]\n\n\ndef f(y):\n    return y\n\n\nf(2)\n'

    assert tree["shared/app.py"] == rest
