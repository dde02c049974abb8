"""Creates, updates or deletes the app registration that people sign in with (docs/sign-in.md).

The steps are in configure_sign_in.py, which needs Python 3.11 and nothing but its standard library.
This file keeps to what Python 2.7 can parse, so that an older Python names the one to install
instead of a syntax error.
"""

import os
import sys

OLDEST_PYTHON = (3, 11)

if __name__ == "__main__":
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(
            "scripts/sign_in.py needs Python 3.11 or later, and this is Python "
            + ".".join(str(number) for number in sys.version_info[:3])
            + ": install one from https://www.python.org/downloads/"
        )
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from scripts.configure_sign_in import main

    sys.exit(main())
