"""``python -m ppsim.cli``."""

from ppsim.cli.app import main

if __name__ == "__main__":
    main()
