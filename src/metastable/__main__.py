"""python -m metastable."""

import sys

from metastable.cli import main

if __name__ == "__main__":
    sys.exit(main())
