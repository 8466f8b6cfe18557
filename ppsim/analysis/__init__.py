"""What a run says: simulate, the result, its explanation, what-if, comparison, uncertainty."""
