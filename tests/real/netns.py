"""Network namespaces, each with a port of a given rate onto one bridge.

Meant to be entered behind ``ISOLATED``: then the bridge, the namespaces, their names and all processes live in
namespaces of one process tree, and are gone when that ends, however it ends. Nothing outside is touched.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from types import TracebackType

ISOLATED = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Runs a command as the first process of a tree of its own; needs root."""
BURST, QUEUE = "72kb", "4mb"
"""What a port may send at once (the kernel's largest packet, else it cuts each into small ones, which takes a core), and
how much it lets wait before it drops (more than PyTorch's sockets hold)."""

TCP = ("tcp_congestion_control=reno", "tcp_slow_start_after_idle=0", "tcp_limit_output_bytes=65536")
"""A connection sends at the port's rate throughout (BBR, where that is the default, stops now and then to measure), and
puts no more than the last of these into its port's queue, so that what answers to others isn't kept waiting there."""


class Network:
    """One node per rate (in Mbit/s), shaped in both directions; a context manager."""

    interface = "eth0"

    def __init__(self, mbits: Sequence[float]) -> None:
        self.mbits = mbits

    def inside(self, node: int) -> list[str]:
        """What goes before a command so that it runs on that node."""
        return ["ip", "netns", "exec", f"node{node}"]

    def __enter__(self) -> Network:
        if other := [name for name in _interfaces() if name != "lo"]:
            raise RuntimeError(f"{other[0]} is here: not in a network namespace of our own")
        # Names of namespaces are files below /run: of our own, too.
        _call("mount -t tmpfs tmpfs /run")
        _call("ip link add bridge0 type bridge")
        _call("ip link set bridge0 up")
        for node, mbit in enumerate(self.mbits):
            shape = f"root tbf rate {mbit}mbit burst {BURST} limit {QUEUE}"
            _call(f"ip netns add node{node}")
            _call(f"ip link add port{node} type veth peer name eth0 netns node{node}")
            _call(f"ip link set port{node} master bridge0 up")
            _call(f"tc qdisc add dev port{node} {shape}")
            for setting in TCP:
                _call(f"ip netns exec node{node} sysctl -q -w net.ipv4.{setting}")
            _call(f"ip -n node{node} addr add 10.77.0.{node + 1}/24 dev eth0")
            _call(f"ip -n node{node} link set lo up")
            _call(f"ip -n node{node} link set eth0 up")
            _call(f"tc -n node{node} qdisc add dev eth0 {shape}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in range(len(self.mbits)):
            _call(f"ip link del port{node}")
            _call(f"ip netns del node{node}")
        _call("ip link del bridge0")
        _call("umount --recursive /run")


def _interfaces() -> list[str]:
    return [line.split(": ")[1].split("@")[0] for line in _call("ip -o link").splitlines()]


def _call(command: str) -> str:
    """Raises RuntimeError with what it said where a command fails."""
    done = subprocess.run(command.split(), capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout
