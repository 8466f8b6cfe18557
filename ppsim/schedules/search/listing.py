"""List scheduling: time goes forward, and every free rank takes the best of the ops that are ready and fit its memory.

The rule that makes it good is when to run W, which nothing waits for. In a gap that it fits it costs nothing. In a
shorter one the rank may rather wait for its next F or I, but only as long as it has then waited no more than the rank
that has waited most: that one sets the length of the step, so the others' waits are free until then.

A forward leaves room for one activation of each later stage of its rank. So the last stage can always go on, and then
the one before it, too: no order gets stuck.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from heapq import heappop, heappush
from typing import Literal

from ppsim._jit import Loop
from ppsim.schedules.search.instance import Instance, Ints, Sequence, column, rounded

First = Literal["backward", "forward"]
NEVER = 1 << 62
UNLIMITED = 1 << 62


@dataclass(frozen=True)
class Policy:
    """How a rank chooses among its ready ops."""

    first: First = "backward"
    """Which goes first where an I and an F are ready."""
    shares: bool = False
    """Each stage has a share of its rank's memory, in proportion to its distance from the end of the model."""
    hold: bool = False
    """No F that would delay the first microbatch's gradient: it goes up the ranks without a stop."""
    patient: bool = True
    """A rank may wait as long as another has waited already; without, it runs a W rather than wait."""


def list_schedule(instance: Instance, policy: Policy) -> Sequence:
    """The order that a policy gives."""
    take = instance.memory.take
    reserve = [0] * instance.stages
    for held in instance.stages_of:
        for place, stage in enumerate(held):
            reserve[stage] = sum(take[later] for later in held[place + 1 :])
    credit = shared_credit(instance) if policy.shares else [UNLIMITED] * instance.stages
    flat = partial(column, compiled=instance.compiled)
    return _dispatch.run(instance.compiled)(
        instance.ranks, instance.stages, instance.microbatches, flat(instance.rank_of), flat(instance.held_at),
        flat(instance.held), flat(instance.duration), flat(instance.hop), flat(take),
        flat(instance.memory.keep), flat(instance.memory.limit), flat(credit), flat(reserve),
        policy.first == "forward", policy.hold, policy.patient,
    )  # fmt: skip


def shared_credit(instance: Instance) -> Ints:
    """The most microbatches that each stage may have between its F and its I, where stages have shares."""
    distance = [instance.stages - stage for stage in range(instance.stages)]
    longest = max(sum(distance[s] for s in held) for held in instance.stages_of)
    credit = [1] * instance.stages
    for rank, held in enumerate(instance.stages_of):
        room = instance.memory.limit[rank] * len(held) // sum(instance.memory.take[s] for s in held)
        left = max(len(held), rounded(Fraction(room * sum(distance[s] for s in held), longest)))
        for place in range(len(held) - 1, -1, -1):
            share = rounded(Fraction(room * distance[held[place]], longest)) if place else left
            credit[held[place]] = max(1, min(share, left - place))
            left -= credit[held[place]]
    return credit


@partial(Loop, makes=True)
def _dispatch(
    ranks: int, stages: int, m: int, rank_of: Ints, held_at: Ints, held: Ints, duration: Ints, hop: Ints, take: Ints,
    keep: Ints, limit: Ints, credit: Ints, reserve: Ints, forward_first: bool, hold: bool, patient: bool,
) -> Sequence:  # fmt: skip
    """Flat columns throughout: this is the loop that takes the time."""
    sequence: Sequence = []
    forwards, backwards, weights = [0] * stages, [0] * stages, [0] * stages  # how many of each are done
    forward_at, backward_at = [NEVER] * (stages * m), [NEVER] * (stages * m)  # when their inputs are there
    forward_at[:m] = [0] * m
    used = [0] * stages  # memory
    free = [0] * ranks  # when each rank is free
    begun, waited, longest_wait = [False] * ranks, [0] * ranks, 0
    events = list(range(ranks))  # when to look at which rank: time * ranks + rank
    last = stages - 1
    while events:
        now, r = divmod(heappop(events), ranks)
        if free[r] > now:
            continue
        mine = range(held_at[r + 1] - 1, held_at[r] - 1, -1)
        total = 0
        for x in mine:
            total += used[held[x]]
        forward = backward = weight = -1
        next_forward = next_backward = first_backward = NEVER
        blocked = full = False
        # What a stage may take: each later stage keeps room for an activation, beside those of the stages up to it.
        spare = limit[r]
        for x in mine:
            s = held[x]
            spare = min(spare, limit[r] - total - reserve[s])
            total -= used[s]
            done = backwards[s]
            if done < forwards[s]:
                at = backward_at[s * m + done]
                if at <= now:
                    if backward < 0 or done < backwards[backward]:
                        backward = s
                else:
                    next_backward = min(next_backward, at)
                    if done == 0:
                        first_backward = min(first_backward, at)
            if weights[s] < done and (weight < 0 or weights[s] <= weights[weight]):
                weight = s
            k = forwards[s]
            if k < m:
                at = forward_at[s * m + k]
                if k - done >= credit[s] or take[s] > spare:
                    blocked = blocked or at <= now
                    full = full or (at <= now and k - done < credit[s])
                elif at > now:
                    next_forward = min(next_forward, at)
                elif forward < 0 or k <= forwards[forward]:
                    forward = s
        kind = -1
        if weight >= 0 and full and forward < 0:
            kind = 2
        elif backward >= 0 and (forward < 0 or not forward_first):
            kind = 1
        elif forward >= 0:
            if hold and first_backward - now < duration[forward]:
                if weight >= 0 and duration[2 * stages + weight] <= first_backward - now:
                    kind = 2
            else:
                kind = 0
        elif weight >= 0:
            until = next_backward if blocked else min(next_forward, next_backward)
            fits = until - now >= duration[2 * stages + weight]
            if fits or waited[r] + until - free[r] > (longest_wait if patient else 0):
                kind = 2
        if kind < 0:
            continue
        if kind == 0:
            s, k = forward, forwards[forward]
            forwards[s] += 1
            used[s] += take[s]
        elif kind == 1:
            s, k = backward, backwards[backward]
            backwards[s] += 1
            used[s] -= take[s] - keep[s]
        else:
            s, k = weight, weights[weight]
            weights[s] += 1
            used[s] -= keep[s]
        if begun[r]:
            waited[r] += now - free[r]
            longest_wait = max(longest_wait, waited[r])
        begun[r] = True
        end = now + duration[kind * stages + s]
        free[r] = end
        heappush(events, end * ranks + r)
        sequence.append((kind * stages + s) * m + k)
        if kind == 0 and s < last:
            there, target = end + hop[s], rank_of[s + 1]
            forward_at[(s + 1) * m + k] = there
        elif kind == 0:
            there, target = end, r
            backward_at[s * m + k] = there
        elif kind == 1 and s > 0:
            there, target = end + hop[s - 1], rank_of[s - 1]
            backward_at[(s - 1) * m + k] = there
        else:
            continue
        if target != r or there > end:
            heappush(events, max(there, free[target]) * ranks + target)
    return sequence
