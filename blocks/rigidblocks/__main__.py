"""`python -m rigidblocks` is the command."""

import sys

from rigidblocks.cli import main

if __name__ == "__main__":
    sys.exit(main())
