"""What a terminal and a notebook show."""
