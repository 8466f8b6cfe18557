"""A device and its rates, and how a row of the catalog becomes settings."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ppsim._model import Model
from ppsim.hardware import catalog
from ppsim.units import PositiveBandwidth, Rate, Size

DEVICE_FIELDS = ("memory", "peak_flops", "peak_dtype", "peaks", "memory_bandwidth")


def row_of(kind: str, name: str) -> Mapping[str, Any]:
    """A row of the catalog; ``free`` is a link with nothing in it. Raises ValueError."""
    if kind == "link" and name == "free":
        return {}
    if kind == "link" and name.lower() in ("free", "none", "ideal", "infinite"):
        raise ValueError(f"unknown link '{name}'; did you mean 'free', a link without cost?")
    return catalog.row(kind, name)


def from_catalog(kind: str, fields: tuple[str, ...], model: type[Model]) -> BeforeValidator:
    """A row's name, or {like: row, …} with changes, into the row's fields."""

    def expand(value: object) -> object:
        if isinstance(value, str):
            if kind == "link" and value == "free":
                return {}
            value = {"like": value}
        if isinstance(value, dict) and isinstance(value.get("like"), str):
            row = row_of(kind, value["like"])
            return {**{key: row[key] for key in fields if key in row}, **value}
        return value

    return BeforeValidator(expand, json_schema_input_type=str | model)


class Device(Model):
    """A device: its memory and its rates; memory that isn't given isn't limited, rates are then not known."""

    like: str | None = None
    """The row of the catalog that this is, or changes."""
    memory: Size | None = None
    """Its memory."""
    peak_flops: Rate | None = None
    """Its peak rate in `peak_dtype`, for MFU and for costs from a model."""
    peak_dtype: str = "bf16"
    """The data type of `peak_flops`."""
    peaks: dict[str, Rate] = Field({})
    """Peak rates in other data types, as in {fp8: 1979 TFLOP/s}."""
    memory_bandwidth: PositiveBandwidth | None = None
    """Of its own memory, for costs from a model."""

    def peak(self, dtype: str) -> Fraction | None:
        """The peak rate in a data type; 16-bit types have the same. None where it isn't known."""
        same = {"bf16": ("bf16", "fp16"), "fp16": ("fp16", "bf16")}.get(dtype, (dtype,))
        known = {**({self.peak_dtype: self.peak_flops} if self.peak_flops is not None else {}), **self.peaks}
        return next((known[name] for name in same if name in known), None)


DeviceField = Annotated[Device, from_catalog("device", DEVICE_FIELDS, Device)]
