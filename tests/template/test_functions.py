"""The functions of the app, as Azure Functions sees them: names, levels, methods and routes.

`python -m tests.template.test_functions > tests/template/functions.txt` writes the list.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PRINT = """import function_app
for one in function_app.app.get_functions():
    trigger = one.get_trigger()
    methods = ",".join(method.value for method in trigger.methods)
    level = trigger.get_dict_repr()["authLevel"].name
    print(one.get_function_name(), level, methods, trigger.route)
"""


def list_functions() -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRINT],
        cwd=ROOT,
        env={"WEBSITE_SITE_NAME": "chat"},  # in Azure, where all three levels differ
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_functions_match_the_list() -> None:
    expected = Path(__file__).with_name("functions.txt").read_text("utf-8")

    assert list_functions() == expected


if __name__ == "__main__":
    print(list_functions(), end="")
