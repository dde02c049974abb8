"""The functions of the app, as Azure Functions sees them: names, levels, methods and routes."""

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


def test_functions_match_the_list() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINT],
        cwd=ROOT,
        env={"WEBSITE_SITE_NAME": "chat"},  # in Azure, where all three levels differ
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == Path(__file__).with_name("functions.txt").read_text("utf-8")
