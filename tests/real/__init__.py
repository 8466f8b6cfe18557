"""Real runs of torch.distributed.pipelining, each beside its simulation: ``python -m tests.real`` makes the table."""
