"""How layers are shared out to stages: uniformly, as listed, balanced, or by PipeDream's planner."""
