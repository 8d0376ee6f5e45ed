"""Entry point of `python -m rigidblocks`, which runs the command `rigidblocks`."""

import sys

from rigidblocks.cli import main

if __name__ == "__main__":
    sys.exit(main())
