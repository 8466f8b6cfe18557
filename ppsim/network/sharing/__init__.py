"""Rules by which messages share ports, links and switches: a module each, with its ``RULE``."""
