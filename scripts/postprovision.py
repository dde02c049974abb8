"""The postprovision hook of azd: writes local settings, loads the sample documents."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

NOT_INSTALLED = (
    "{name} is not installed in {prefix}. Delete that folder, so that azd makes it anew, then "
    "`azd hooks run postprovision`."
)

if __name__ == "__main__":
    try:
        from scripts.after_provision import main
    except ModuleNotFoundError as error:
        sys.exit(NOT_INSTALLED.format(name=error.name, prefix=sys.prefix))

    sys.exit(main())
