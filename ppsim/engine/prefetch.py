"""A hint to the processor, for the compiled loops. Importing this module needs Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ppsim.engine.columns import Records

WRITTEN, STAYS, DATA = 1, 3, 1
"""What the hint says: it will be written, and needed more than once; it isn't code.

Source: llvm.prefetch, https://llvm.org/docs/LangRef.html.
"""


def _prefetch(_: Any, records: Any, place: Any) -> tuple[Any, Any]:
    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, given[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        takes = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        where = builder.bitcast(builder.gep(array.data, [given[1]]), byte)
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], takes)
        builder.call(hint, [where, number(WRITTEN), number(STAYS), number(DATA)])
        return context.get_dummy_value()

    return types.void(records, place), code


prefetch = cast(Callable[[Records, int], None], intrinsic(_prefetch))
"""Fetch a record from memory while other work goes on; a place outside the array does nothing.

A run with a thousand ranks goes on in a thousand places of memory, one after the other: no processor guesses which is
next, and each would take as long as a hundred steps of the loop.
"""
