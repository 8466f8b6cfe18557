"""Efficiency: the roofline, curves of either slope, measured shapes, collectives by formula."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from pydantic import TypeAdapter

from ppsim.costs.transformer.efficiency import Efficiency, EfficiencyField, Machine
from ppsim.costs.transformer.terms import Exchange, Product, Work
from ppsim.hardware.link import Link

F = Fraction
READ: TypeAdapter[Efficiency] = TypeAdapter(EfficiencyField)


def machine(efficiency: Any = None, n: int = 4, link: Any = None, tree: bool = False) -> Machine:
    """1 TFLOP/s, 1 TB/s, a link of 100 GB/s and 1 us; all reached whole."""
    whole = {"matmul": 1, "memory": 1, "link": 1} if efficiency is None else efficiency
    given = Link.model_validate(link or {"bandwidth": "100 GB/s", "latency": "1 us"})
    return Machine(READ.validate_python(whole), F(10**12), F(10**12), {"tensor": given}, {"tensor": n}, tree)


def product(m: int, n: int, k: int, count: int = 1) -> Product:
    return Product(F(m), F(n), F(k), count)


def test_a_product_takes_the_longer_of_computing_and_moving() -> None:
    large, thin = product(1000, 1000, 1000), product(1, 1000, 1000)
    assert machine().seconds(Work((large,))) == F(2 * 10**9, 10**12)  # 3 million elements of 2 bytes take 6 us
    assert machine().seconds(Work((thin,))) == F(2 * (10**6 + 2000), 10**12)  # computing takes 2 us, moving 2.004
    assert machine({"matmul": 0.5, "memory": 1}).seconds(Work((large,))) == F(4 * 10**9, 10**12)
    assert machine({"matmul": 1, "memory": 0.5}).seconds(Work((thin,))) == F(4 * (10**6 + 2000), 10**12)


def test_the_parts_of_a_pass_add_up() -> None:
    work = Work((product(1000, 1000, 1000),) * 2, F(10**6), (Exchange("all_gather", "tensor", F(10**6)),))
    gather = 3 * F(1, 10**6) + F(3, 4) * 10**6 / (100 * 10**9)
    assert machine().seconds(work) == 2 * F(2, 1000) + F(1, 10**6) + gather


def test_a_fused_kernel_moves_only_what_it_says() -> None:
    thin = product(1, 1000, 1000)
    assert machine().seconds(Work((thin,), F(10), fused=True)) == F(2, 10**6)
    assert machine().seconds(Work((thin,), F(10**7), fused=True)) == F(10**7, 10**12)  # the longer of the two
    half = Work((thin,), share=F(1, 2), fused=True)
    assert machine({"matmul": 1, "attention": 0.5}).seconds(half) == F(2, 10**6)


@pytest.mark.parametrize(
    ("small", "large"), [("0.6", "0.4"), ("0.2", "0.8")], ids=["small products are better", "large ones"]
)
def test_a_curve_has_either_slope(small: str, large: str) -> None:
    """Between points times lie on a line, so that more operations never take less time than in proportion's reach."""
    points = [{"flops": "1 GFLOP", "efficiency": small}, {"flops": "3 GFLOP", "efficiency": large}]
    curve = machine({"matmul": points, "memory": 1})

    def time(flops: int) -> Fraction:
        return curve.seconds(Work((product(flops // 2000000, 1000, 1000),)))

    low, high = F(10**9) / F(small) / 10**12, F(3 * 10**9) / F(large) / 10**12
    assert time(10**9) == low and time(3 * 10**9) == high
    assert time(2 * 10**9) == (low + high) / 2
    assert time(5 * 10**8) == low / 2  # below the first point as at it
    assert time(6 * 10**9) == 2 * high  # beyond the last one, too


def test_a_curve_is_over_the_size_of_one_product() -> None:
    points = [{"flops": "1 GFLOP", "efficiency": 0.2}, {"flops": "10 GFLOP", "efficiency": 1}]
    ten_small = Work((product(500, 1000, 1000, count=10),))  # ten of 1 GFLOP
    assert machine({"matmul": points, "memory": 1}).seconds(ten_small) == 10 * F(10**9) / F(1, 5) / 10**12


def test_a_measured_shape_goes_before_the_curve() -> None:
    given = machine({"matmul": 1, "memory": 1, "shapes": [{"m": 1000, "n": 500, "k": 1000, "efficiency": 0.25}]})
    assert given.seconds(Work((product(1000, 500, 1000),))) == F(4 * 10**9, 10**12)
    assert given.seconds(Work((product(1000, 1000, 500),))) == F(10**9, 10**12)  # another shape, as many operations


def test_a_number_alone_is_the_products() -> None:
    read = READ.validate_python(0.45)
    assert read.matmul == F(45, 100) and read.memory == Efficiency().memory
    assert read.guesses == ["memory"]
    assert Efficiency().guesses == ["matmul", "memory"]


@pytest.mark.parametrize(
    ("pattern", "hops", "tree_hops", "times"),
    [
        ("all_gather", 7, 3, 1),
        ("reduce_scatter", 7, 3, 1),
        ("all_reduce", 14, 6, 2),  # a reduce-scatter and an all-gather
        ("all_to_all", 7, 7, 1),
        ("ring", 7, 7, 1),
    ],
)
def test_collectives_of_eight_devices(pattern: Any, hops: int, tree_hops: int, times: int) -> None:
    """7/8 of the bytes leave each device, and as many hops as the way has."""
    size = F(8 * 10**6)
    for tree, count in ((False, hops), (True, tree_hops)):
        found = machine(n=8, tree=tree).collective(Exchange(pattern, "tensor", size))
        assert found == count * F(1, 10**6) + times * F(7 * 10**6, 100 * 10**9)


def test_collectives_of_one_device_and_over_free_links_take_no_time() -> None:
    exchange = Exchange("all_reduce", "tensor", F(10**6))
    assert machine(n=1).collective(exchange) == 0
    free = Machine(Efficiency(), F(1), None, {"tensor": Link()}, {"tensor": 4})
    assert free.collective(exchange) == 0
    assert free.moving(F(10**9)) == 0  # a memory whose bandwidth isn't known


def test_a_measured_bandwidth_goes_before_the_links() -> None:
    exchange = Exchange("all_gather", "tensor", F(4 * 10**6))
    found = machine({"matmul": 1, "collective": "50 GB/s"}).collective(exchange)
    assert found == 3 * F(1, 10**6) + F(3 * 10**6, 50 * 10**9)


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        (1.2, "matmul", "1.2 is more than the peak rate"),
        ({"memory": 2}, "memory", "more than the peak rate"),
        ({"matmul": [{"flops": "2 GFLOP", "efficiency": 1}, {"flops": "1 GFLOP", "efficiency": 1}]}, "matmul", "order"),
        ({"shapes": [{"m": 1, "n": 1, "k": 1, "efficiency": 1}] * 2}, "shapes", "given twice"),
    ],
)
def test_efficiencies_that_cant_be(given: Any, key: str, message: str) -> None:
    assert message in dict(READ.validate_python(given).problems())[key]
