"""The command line; nothing heavy is imported before a command needs it."""

from ppsim.cli.app import main

__all__ = ["main"]
