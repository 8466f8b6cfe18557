"""The processes and threads of a Chrome trace: who has a track, what it is called, where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ppsim.engine.timeline import Timeline
from ppsim.ops import NONE, Longs
from ppsim.plan.table import Plan


@dataclass(frozen=True)
class Tracks:
    """Processes by pid; threads, numbered from 1 over all processes, by their process and name."""

    processes: tuple[str, ...]
    threads: tuple[tuple[int, str], ...]
    of_rank: tuple[str, ...]
    """Where each rank's ops go, as the keys of an event."""
    of_port: tuple[tuple[str, ...], ...]
    """Where each port's messages go, as the keys of an event; several where messages are on it at once."""

    @classmethod
    def of(cls, plan: Plan, at_once: Sequence[int]) -> Tracks:
        """A process per rank (pid = rank) with its ops first, then the ports that it alone uses; one per shared NIC.

        A port has as many threads as messages are on it ``at_once``.
        """
        processes = [_rank_name(rank, held) for rank, held in enumerate(plan.placement.stages_of)]
        owner: list[int] = []
        for port, name in enumerate(plan.ports):
            users = {*plan.routes.src[plan.routes.egress == port].tolist()}
            users |= {*plan.routes.dst[plan.routes.ingress == port].tolist()}
            if len(users) == 1:
                owner.append(users.pop())
                continue
            nic = name.rpartition(" ")[0] or name
            if nic not in processes[plan.ops.ranks :]:
                processes.append(nic)
            owner.append(processes.index(nic, plan.ops.ranks))
        threads: list[tuple[int, str]] = []
        of_rank = [""] * plan.ops.ranks
        of_port: list[tuple[str, ...]] = [()] * len(plan.ports)
        for pid in range(len(processes)):
            if pid < plan.ops.ranks:
                threads.append((pid, "compute"))
                of_rank[pid] = _keys(pid, len(threads))
            for port in sorted((i for i in range(len(owner)) if owner[i] == pid), key=plan.ports.__getitem__):
                first, count = len(threads) + 1, max(at_once[port], 1)
                threads += [(pid, f"{plan.ports[port]}{f' ({n})' if n else ''}") for n in range(count)]
                of_port[port] = tuple(_keys(pid, first + n) for n in range(count))
        return cls(tuple(processes), tuple(threads), tuple(of_rank), tuple(of_port))

    def events(self) -> Iterator[str]:
        """The events that name and sort them."""
        for pid, name in enumerate(self.processes):
            yield f'{{"ph":"M","pid":{pid},"name":"process_name","args":{{"name":{json.dumps(name)}}}}}'
            yield f'{{"ph":"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{pid}}}}}'
        for tid, (pid, name) in enumerate(self.threads, 1):
            yield f'{{"ph":"M",{_keys(pid, tid)},"name":"thread_name","args":{{"name":{json.dumps(name)}}}}}'
            yield f'{{"ph":"M",{_keys(pid, tid)},"name":"thread_sort_index","args":{{"sort_index":{tid}}}}}'


def side_by_side(timeline: Timeline) -> tuple[Longs, Longs, list[int]]:
    """Of each transfer its place among those on its egress, and on its ingress, at once; how many places a port has."""
    plan = timeline.plan
    count = [1] * len(plan.ports)
    egress, ingress = np.zeros((2, len(plan.transfers)), np.int64)
    if plan.lines is not None:
        times = list(zip(timeline.transfer_start.tolist(), timeline.left.tolist(), strict=True))
        for place, column in ((egress, plan.routes.egress), (ingress, plan.routes.ingress)):
            until: dict[int, list[int]] = {}
            port = column[plan.transfers.route].tolist()
            for transfer in sorted((i for i in range(len(port)) if port[i] != NONE), key=times.__getitem__):
                ends = until.setdefault(port[transfer], [])
                free = next((n for n, end in enumerate(ends) if end <= times[transfer][0]), len(ends))
                ends[free : free + 1] = [times[transfer][1]]
                place[transfer] = free
            for number, ends in until.items():
                count[number] = len(ends)
    return egress, ingress, count


def _keys(pid: int, tid: int) -> str:
    return f'"pid":{pid},"tid":{tid}'


def _rank_name(rank: int, stages: tuple[int, ...]) -> str:
    return f"rank {rank} (stage{'s' if len(stages) != 1 else ''} {', '.join(map(str, stages))})"
