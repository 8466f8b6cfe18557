"""The search behind the schedules that look at costs: list scheduling, building blocks, justification."""
