"""The postpackage hook of azd: removes the copy of the index that prepackage.py has made."""

from pathlib import Path

(Path(__file__).parent.parent.parent / "index.sqlite").unlink(missing_ok=True)
