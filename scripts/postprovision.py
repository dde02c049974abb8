"""What azd runs after `azd provision`: the laptop's settings, the index, the sample documents."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

if __name__ == "__main__":
    from scripts.provisioned import main

    sys.exit(main())
