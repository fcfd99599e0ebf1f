"""`python -m pdes` is `pdes-sim`."""

import sys

from pdes.cli import main

if __name__ == "__main__":
    sys.exit(main())
