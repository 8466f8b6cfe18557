"""The size of a message, written as a size or as the shape of the tensor that is sent."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from ppsim._model import Model, Whole
from ppsim.units import Size

DTYPE_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


class Shape(Model):
    """A tensor of micro_batch × sequence × hidden elements."""

    micro_batch: Whole = Field(1, ge=1)
    """Samples in a microbatch (b)."""
    sequence: Whole = Field(ge=1)
    """Tokens in a sequence (s)."""
    hidden: Whole = Field(ge=1)
    """Elements of a token's hidden state (h)."""
    dtype: Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"] = "bf16"
    """Type of an element."""

    @property
    def size(self) -> Fraction:
        """b · s · h · dtype, in bytes."""
        return Fraction(self.micro_batch * self.sequence * self.hidden * DTYPE_BYTES[self.dtype])


def _size_or_shape(value: object) -> str:
    return "<shape>" if isinstance(value, dict | Shape) else "<size>"


Message = Annotated[
    Annotated[Size, Tag("<size>")] | Annotated[Shape, AfterValidator(lambda shape: shape.size), Tag("<shape>")],
    Discriminator(_size_or_shape),
]
"""A size in bytes, given as a size or as a Shape."""
