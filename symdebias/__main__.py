"""The command line, as ``python -m symdebias``."""

import sys

from symdebias.interfaces.cli import main

if __name__ == "__main__":
    sys.exit(main())
