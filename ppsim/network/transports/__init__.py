"""What frameworks' sends and receives wait for: a module each, with its ``TRANSPORT``."""
