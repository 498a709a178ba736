"""``python -m mxcore``: the same as the ``mxcore`` command."""

import sys

from mxcore.cli import main

if __name__ == "__main__":
    sys.exit(main())
