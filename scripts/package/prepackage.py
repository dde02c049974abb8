"""The prepackage hook of azd: has the embedded index packaged if AZURE_DEPLOY_INDEX asks for it.

.funcignore keeps every *.db out: an index on a laptop may have what nobody in Azure should read.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
INDEX, PACKAGED = "index.db", "index.sqlite"
NO_INDEX = (
    f"AZURE_DEPLOY_INDEX is true, but there is no {INDEX}: run `make index DOCS=folder` first, "
    "or `azd env set AZURE_DEPLOY_INDEX false`."
)


def main(environment: Mapping[str, str] = os.environ, folder: Path = ROOT) -> int:
    """Copy the index, or remove an earlier copy. Returns the exit status: 1 without an index."""
    sys.path.insert(0, str(ROOT))
    from scripts.switches import is_on

    # A packaging that failed leaves its copy, and another environment may not want it.
    (folder / PACKAGED).unlink(missing_ok=True)
    if not is_on(environment, "AZURE_DEPLOY_INDEX"):
        return 0
    try:
        # Not with the mode of the index: azd may keep it, and in Azure another user reads the file.
        shutil.copyfile(folder / INDEX, folder / PACKAGED)
    except FileNotFoundError:
        print(NO_INDEX, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
