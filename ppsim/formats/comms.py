"""Passes that spell out what a schedule of compute ops leaves unsaid: sends, receives, gradient sync, sharded weights.

Each takes Orders and returns new ones; what was there keeps its order. PyTorch lowers a compute-only schedule by the
first three, in this order, and where it is told to defer receives by much the same as the fourth:

| pass | adds |
|---|---|
| ``shards`` | UNSHARD before a stage is used and RESHARD after, three stages ahead (no effect without FSDP) |
| ``gradient_syncs`` | REDUCE_GRAD behind a stage's last weight gradient |
| ``early_receives`` | SEND right behind its op; RECV as soon as its sender has got there |
| ``deferred_receives`` | moves each RECV right before the op that uses it |

A fused pair is one step of its rank: its receives come before it, its sends after it.
Source: the behaviour of torch.distributed.pipelining in PyTorch 2.13.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ppsim.errors import DeadlockError, FormatError
from ppsim.ops import COMMUNICATION, COMPUTE, NONE, Kind, Op, Ops, Orders, cell, from_ops

Unit = tuple[Op, ...]
"""What a rank does in one step: an op, or the two of a fused pair."""

SENDS, RECEIVES = (Kind.SEND_F, Kind.SEND_B), (Kind.RECV_F, Kind.RECV_B)
BACKWARD = (Kind.B, Kind.I)
AHEAD = 3
"""Stages whose weights are gathered at a time: a forward's, a backward's and the next one's."""


def units(table: Ops) -> Iterator[Unit]:
    """The ops of one rank, the two of a fused pair together."""
    position, group = 0, table.group.tolist()
    while position < len(table):
        width = 2 if group[position] != NONE else 1
        yield tuple(table[i] for i in range(position, position + width))
        position += width


def homes(orders: Orders) -> dict[int, int]:
    """The rank of every stage. Raises FormatError where two ranks hold copies of one."""
    found: dict[int, int] = {}
    for rank, table in enumerate(orders):
        for stage in sorted({op.stage for op in table if op.kind in COMPUTE}):
            if found.setdefault(stage, rank) != rank:
                raise FormatError(
                    f"stage {stage} is on ranks {found[stage]} and {rank}, and PyTorch's runtime gives a stage to one "
                    "rank: take a schedule whose placement does, as dualpipev in place of dualpipe"
                )
    return found


def early_receives(orders: Orders) -> Orders:
    """SEND and RECV as PyTorch puts them: a receive is posted as early as its sender's order allows.

    The ranks take turns, rank 0 first. In its turn a rank takes its next step if the inputs have been received or were
    made on the rank itself; SENDs of the outputs go behind that step and, at the same moment, RECVs to the ends of
    their receivers' lists. Such an order is safe even where sends and receives wait for each other.
    Raises FormatError where the orders hold communication already, DeadlockError where no rank can go on.
    """
    _refuse_communication(orders)
    home = homes(orders)
    ahead = [deque(units(table)) for table in orders]
    done: list[list[Unit]] = [[] for _ in ahead]
    there: set[Op] = set()  # inputs by their RECV, those that never leave their rank included
    while any(ahead):
        moved = False
        for rank, steps in enumerate(ahead):
            if not steps or not there.issuperset(_inputs(steps[0], home)):
                continue
            moved = True
            step = steps.popleft()
            done[rank].append(step)
            for op in step:
                if (message := _message(op, home)) is None:
                    continue
                send, receive = message
                there.add(receive)
                if home[receive.stage] != rank:
                    done[rank].append((send,))
                    done[home[receive.stage]].append((receive,))
        if not moved:
            raise DeadlockError(_stuck(ahead, there, home))
    return _orders(done, orders)


def deferred_receives(orders: Orders, lower_rank_first: bool = False) -> Orders:
    """Orders with SEND and RECV, each RECV moved right before the op that uses it.

    Receives from one rank keep their order among themselves, because that is how they find their messages: one that is
    used later may have to come earlier than that. With ``lower_rank_first``, of two ranks that send to each other the
    lower one posts those receives from the other that came before, before it sends to it: PyTorch's rule
    (``defer_pp_recv``). It doesn't make the order safe where a send waits for its receive: on two ranks 1F1B's 0SEND_F1
    and 1SEND_B0 still wait for each other. Early receives are safe.
    Raises FormatError for a RECV that no op of its rank uses.
    """
    home = homes(orders)
    done: list[list[Unit]] = []
    for rank, table in enumerate(orders):
        mine: list[Unit] = []
        waiting: dict[int, deque[Op]] = {}  # receives yet to be listed, by sender
        for step in units(table):
            first = step[0]
            if first.kind in RECEIVES:
                waiting.setdefault(_peer(first, home), deque()).append(first)
                continue
            if first.kind in SENDS and lower_rank_first and rank < _peer(first, home):
                mine += [(receive,) for receive in waiting.pop(_peer(first, home), ())]
            for needed in _inputs(step, home):
                queue = waiting.get(_peer(needed, home), deque())
                for _ in range(queue.index(needed) + 1 if needed in queue else 0):
                    mine.append((queue.popleft(),))
            mine.append(step)
        unused = next((receive for queue in waiting.values() for receive in queue), None)
        if unused is not None:
            raise FormatError(f"rank {rank}: {unused}: no op behind it uses what is received")
        done.append(mine)
    return _orders(done, orders)


def first_mix_up(orders: Orders) -> tuple[Op, Op] | None:
    """The first RECV that would take another's message where messages between two ranks are matched by their order.

    Returns it and the RECV that its sender means, or None where all agree, as PyTorch needs it.
    """
    home = homes(orders)
    sent: dict[tuple[int, int], list[Op]] = {}
    received: dict[tuple[int, int], list[Op]] = {}
    for rank, table in enumerate(orders):
        for op in table:
            if op.kind in SENDS:
                kind = Kind.RECV_F if op.kind == Kind.SEND_F else Kind.RECV_B
                sent.setdefault((rank, _peer(op, home)), []).append(Op(kind, _other_stage(op), op.microbatch))
            elif op.kind in RECEIVES:
                received.setdefault((_peer(op, home), rank), []).append(op)
    pairs = (zip(received.get(pair, ()), meant, strict=False) for pair, meant in sent.items())
    return next(((got, meant) for pair in pairs for got, meant in pair if got != meant), None)


def gradient_syncs(orders: Orders) -> Orders:
    """REDUCE_GRAD behind the last weight gradient (B or W) of every stage; orders that have any stay as they are."""
    if Kind.REDUCE_GRAD in orders.table.kind:
        return orders
    done: list[list[Unit]] = []
    for table in orders:
        last = {op.stage: op for op in table if op.kind in (Kind.B, Kind.W)}
        mine: list[Unit] = []
        for step in units(table):
            mine.append(step)
            mine += [(Op(Kind.REDUCE_GRAD, op.stage),) for op in step if last.get(op.stage) == op]
        done.append(mine)
    return _orders(done, orders)


def shards(orders: Orders) -> Orders:
    """UNSHARD of the stages that a rank uses next, RESHARD of those that it doesn't; orders with any stay as they are.

    Before each step the rank holds the whole weights of the next three different stages of its list (four where the
    third comes in a pair with a fourth).
    """
    if Kind.UNSHARD in orders.table.kind:
        return orders
    done: list[list[Unit]] = []
    for table in orders:
        steps = list(units(table))
        mine: list[Unit] = []
        whole: set[int] = set()
        for step, wanted in zip(steps, _next_stages(steps), strict=True):
            mine += [(Op(Kind.RESHARD, stage),) for stage in sorted(whole.difference(wanted))]
            mine += [(Op(Kind.UNSHARD, stage),) for stage in wanted if stage not in whole]
            whole = set(wanted)
            mine.append(step)
        mine += [(Op(Kind.RESHARD, stage),) for stage in sorted(whole)]
        done.append(mine)
    return _orders(done, orders)


def lowered(orders: Orders) -> Orders:
    """All that PyTorch adds to a compute-only schedule before it runs it."""
    return early_receives(gradient_syncs(shards(orders)))


def _next_stages(steps: list[Unit]) -> list[list[int]]:
    """For each step the different stages from there on, in order, up to the step that makes them three."""
    out: list[list[int]] = []
    following: list[list[int]] = []
    for step in reversed(steps):
        now = list(dict.fromkeys(op.stage for op in step))
        kept, count = [now], len(now)
        for stages in following:
            more = [stage for stage in stages if stage not in now]
            if count < AHEAD and more:
                kept.append(more)
                count += len(more)
        following = kept
        out.append([stage for stages in kept for stage in stages])
    return out[::-1]


def _other_stage(op: Op) -> int:
    """The stage at the other end of a SEND or RECV."""
    return op.stage + (1 if op.kind in (Kind.SEND_F, Kind.RECV_B) else -1)


def _peer(op: Op, home: dict[int, int]) -> int:
    """The rank at the other end of a SEND or RECV, -1 where there is no such stage."""
    return home.get(_other_stage(op), NONE)


def _input(op: Op) -> Op | None:
    """The RECV of what an op takes from another stage, whether or not that is on another rank."""
    if op.kind == Kind.F:
        return Op(Kind.RECV_F, op.stage, op.microbatch)
    return Op(Kind.RECV_B, op.stage, op.microbatch) if op.kind in BACKWARD else None


def _inputs(step: Unit, home: dict[int, int]) -> list[Op]:
    """The inputs of a step, by their RECVs; the first stage's forward and the last stage's backward have none."""
    return [need for op in step if (need := _input(op)) and _other_stage(need) in home]


def _message(op: Op, home: dict[int, int]) -> tuple[Op, Op] | None:
    """SEND and RECV of an op's output; None where no stage takes it."""
    if op.kind == Kind.F:
        send, receive, taker = Kind.SEND_F, Kind.RECV_F, op.stage + 1
    elif op.kind in BACKWARD:
        send, receive, taker = Kind.SEND_B, Kind.RECV_B, op.stage - 1
    else:
        return None
    return (Op(send, op.stage, op.microbatch), Op(receive, taker, op.microbatch)) if taker in home else None


def _refuse_communication(orders: Orders) -> None:
    listed = next((op for op in orders.table if op.kind in COMMUNICATION), None)
    if listed is not None:
        raise FormatError(f"the order holds {listed}: it spells its communication out already; write it as it stands")


def _stuck(ahead: Iterable[deque[Unit]], there: set[Op], home: dict[int, int]) -> str:
    lines = []
    for rank, steps in enumerate(ahead):
        if steps:
            missing = ", ".join(str(op) for op in _inputs(steps[0], home) if op not in there)
            lines.append(f"rank {rank} at {cell(steps[0])} waits for {missing}, which is never sent")
    return "\n".join(["no rank can go on:", *lines])


def _orders(done: Iterable[Iterable[Unit]], before: Orders) -> Orders:
    return Orders.of([from_ops(steps) for steps in done], before.after)
