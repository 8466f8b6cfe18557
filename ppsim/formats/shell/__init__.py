"""Shell scripts as text: the words that the shell would build, without running anything."""
