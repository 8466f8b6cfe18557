"""What can make a step slow between ranks: what messages share, and what they wait for (``causes`` has the others)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ppsim.analysis.remedy import Case, Remedy, ranks_named
from ppsim.analysis.whatif import on_cluster
from ppsim.network import rule_of
from ppsim.plan import Sending


def shared_ports(case: Case) -> Remedy | None:
    """NICs that several ranks share, where messages queue."""
    sharing = case.spec.topology.cluster.ranks_per_nic
    if sharing == 1 or not _delayed(case):
        return None
    how = "queue for" if case.spec.topology.cluster.sharing == "queueing" else "share"
    return Remedy(
        "queue",
        f"messages {how} NICs that {sharing} ranks share",
        "with one each it would be",
        lambda before: on_cluster(before, ranks_per_nic=1),
    )


def shared_switches(case: Case) -> Remedy | None:
    """Switches that all that goes through them shares."""
    switches = case.spec.topology.cluster.switches
    if not switches or not _delayed(case):
        return None
    named = ", ".join(f"that of {ranks_named(switch.ranks)}" for switch in switches[:2])
    more = f" and {len(switches) - 2} more" if len(switches) > 2 else ""
    return Remedy(
        "switch",
        f"messages share switches: {named}{more}",
        "without these limits it would be",
        lambda before: on_cluster(before, switches=[]),
    )


def _delayed(case: Case) -> bool:
    """Whether messages took longer for others on their way."""
    run = case.result.run
    return bool(np.any(rule_of(run.plan).delayed(run.plan, run.timeline.carried)))


def sending(case: Case) -> Remedy | None:
    """Sends and receives that hold their ranks."""
    rules = case.spec.sending
    if rules == Sending(receives=rules.receives):
        return None
    waits = "messages wait for receives and turns on their connection (runtime.transport)"
    mode = "transport" if rules.transport is not None else rules.mode
    found = {
        "transport": waits,
        "blocking": "sends hold their rank until the message has left (runtime.send: blocking)",
        "rendezvous": "messages wait until their receiver asks for them (runtime.send: rendezvous)",
    }.get(mode, "sends and receives go in batches that hold both ranks (runtime.p2p: fused)")
    return Remedy("sending", found, "overlapped it would be", lambda before: replace(before, sending=Sending()))
