"""The experiment: its settings, read from YAML with every mistake at its line."""
