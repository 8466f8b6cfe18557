"""``python -m ppsim``."""

from ppsim.cli.app import main

if __name__ == "__main__":
    main()
