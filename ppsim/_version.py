"""The version, once: packaging, ``ppsim --version`` and every summary take it from here."""

__version__ = "0.1.0"
