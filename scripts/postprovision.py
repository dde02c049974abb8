"""The postprovision hook of azd: writes local settings, loads the sample documents."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

if __name__ == "__main__":
    from scripts.after_provision import main

    sys.exit(main())
