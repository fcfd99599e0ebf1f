"""Large named tuples of arrays are handed to kernels, and from kernel to kernel, as one address: they are tables.

Numba hands over all words of all arrays, needed or not: 676 for what a stream does. Each function puts the tuple
together from them, and takes it apart again for what it calls; on the way in from Python every array is taken apart by
a call of NumPy. That was half of all compiling (docs/experiments/one-core.md, "Tables"). Where the arrays of a tuple
lie, and how long they are, does not change as long as it is used. So it is written into a row of words, once, and a
kernel loads from there what it needs. LLVM may repeat or move such a load, as it always finds the same.

For a kernel a table is the named tuple that it is for Python. One that a kernel makes by itself goes by value, as does
one whose class says `goes_by_value = True`: Numba's loops over threads, and kernels of a GPU, know no tables.
"""

import struct
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.datamodel.registry import register_default
from numba.core.extending import NativeValue, lower_builtin, typeof_impl, unbox
from numba.core.imputils import lower_getattr_generic

LARGE = 8  # fields of a table, unless a field is a table
MOST_KEPT = 256  # tables, and as many that were used before them
WORD = ir.IntType(64)

Kept = dict[int, tuple[tuple[Any, ...], np.ndarray, int]]  # by id: a tuple, kept so that no other has it; words; where
_kept: Kept = {}
_before: Kept = {}


class Table(types.NamedTuple):
    """The type of a named tuple that is handed over as the address of its words."""

    def __init__(self, of: Any, cls: Any) -> None:
        super().__init__(of, cls)
        self.name = f"table {self.name}"
        self.first_word = [0]
        for one in self.types:
            self.first_word.append(self.first_word[-1] + n_word(one))


def _parts(of: Any) -> tuple[Any, ...] | None:
    """Types of what a tuple's type has; None: it is another one."""
    found: Any = of
    return found.types if isinstance(of, types.BaseTuple) else None


def n_word(of: Any) -> int:
    """Words of a value of a type."""
    if (parts := _parts(of)) is not None:
        return sum(map(n_word, parts))
    return 1 + 2 * of.ndim if isinstance(of, types.Array) else 1


def _is_table(of: list[Any], cls: type) -> bool:
    is_large = len(of) >= LARGE or any(isinstance(one, Table) for one in of)
    may_be = hasattr(cls, "_fields") and not getattr(cls, "goes_by_value", False)
    return may_be and is_large and all(map(_has_words, of))


def _has_words(of: Any) -> bool:
    if (parts := _parts(of)) is not None:
        return all(map(_has_words, parts))
    return isinstance(of, types.Array | types.Integer | types.Float | types.Boolean)


def words_of(value: Any) -> list[int]:
    """The words of a table, in the order in which kernels look for them."""
    found: list[int] = []
    _append(value, found)
    return found


def _append(value: Any, found: list[int]) -> None:
    if isinstance(value, np.ndarray):
        found += (value.__array_interface__["data"][0], *value.shape, *value.strides)
    elif isinstance(value, tuple):
        for part in value:
            _append(part, found)
    elif isinstance(value, float | np.floating):
        found += struct.unpack("q", struct.pack("d", value))
    else:
        number = int(value)
        found.append(number - 2**64 if number >= 2**63 else number)


def address_of(value: tuple[Any, ...]) -> int:
    """Where the words of a table are; for this call at least."""
    found = _kept.get(id(value))
    return _keep(value) if found is None else found[2]


def _keep(value: tuple[Any, ...]) -> int:
    global _kept, _before  # noqa: PLW0603
    found = _before.get(id(value))
    if found is None:
        words = np.array(words_of(value), np.int64)
        found = value, words, words.ctypes.data
    if len(_kept) == MOST_KEPT:
        _kept, _before = {}, _kept
    _kept[id(value)] = found
    return found[2]


def let_go() -> None:
    """Forget all tables: their arrays are to go."""
    _kept.clear()
    _before.clear()


@typeof_impl.register(tuple)
def _typeof_tuple(value: Any, c: Any) -> Any:
    of = [typeof_impl(part, c) for part in value]
    if any(one is None for one in of):
        return None
    return Table(of, type(value)) if _is_table(of, type(value)) else types.BaseTuple.from_types(of, type(value))


@register_default(Table)
class _Address(PrimitiveModel):
    def __init__(self, dmm: Any, of: Any) -> None:
        super().__init__(dmm, of, WORD.as_pointer())


def _load(context: Any, builder: Any, words: Any, of: Any) -> Any:
    """A value of a type from its words."""

    def at(i: int) -> Any:
        return builder.gep(words, [ir.Constant(WORD, i)])

    def word(i: int) -> Any:
        found = builder.load(at(i))
        found.set_metadata("invariant.load", builder.module.add_metadata([]))
        return found

    if isinstance(of, Table):
        return words
    if (parts := _parts(of)) is not None:
        values, i = [], 0
        for part in parts:
            values.append(_load(context, builder, at(i), part))
            i += n_word(part)
        return context.make_tuple(builder, of, values)
    if isinstance(of, types.Array):
        return _load_array(context, builder, word, of)
    if isinstance(of, types.Float):
        double = builder.bitcast(word(0), ir.DoubleType())
        return double if of.bitwidth == 64 else builder.fptrunc(double, ir.FloatType())
    n_bit = 1 if isinstance(of, types.Boolean) else of.bitwidth
    return word(0) if n_bit == 64 else builder.trunc(word(0), ir.IntType(n_bit))


def _load_array(context: Any, builder: Any, word: Any, of: Any) -> Any:
    """An array. Nobody counts references to it: its tuple is kept."""
    members = context.get_value_type(of).elements
    item_size = ir.Constant(WORD, context.get_abi_sizeof(context.get_data_type(of.dtype)))
    shape = [word(1 + i) for i in range(of.ndim)]
    n_item = ir.Constant(WORD, 1)
    for length in shape:
        n_item = builder.mul(n_item, length)
    is_dense_line = of.ndim == 1 and of.layout != "A"
    array = context.make_array(of)(context, builder)
    array.meminfo, array.parent = ir.Constant(members[0], None), ir.Constant(members[1], None)
    array.nitems, array.itemsize = n_item, item_size
    array.data = builder.inttoptr(word(0), members[4])
    array.shape = cgutils.pack_array(builder, shape, WORD)
    strides = [item_size] if is_dense_line else [word(1 + of.ndim + i) for i in range(of.ndim)]
    array.strides = cgutils.pack_array(builder, strides, WORD)
    return array._getvalue()


def _load_part(context: Any, builder: Any, of: Any, words: Any, i: int) -> Any:
    return _load(context, builder, builder.gep(words, [ir.Constant(WORD, of.first_word[i])]), of.types[i])


@lower_getattr_generic(Table)
def _field(context: Any, builder: Any, of: Any, words: Any, name: str) -> Any:
    return _load_part(context, builder, of, words, of.fields.index(name))


@lower_builtin("static_getitem", Table, types.IntegerLiteral)
def _element(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _load_part(context, builder, signature.args[0], args[0], args[1] % len(signature.args[0]))


@unbox(Table)
def _unbox(_: Any, given: Any, c: Any) -> Any:
    """Ask Python where a table's words are."""
    api, builder = c.pyapi, c.builder
    found = cgutils.alloca_once_value(builder, ir.Constant(WORD.as_pointer(), None))
    asked = api.unserialize(api.serialize_object(address_of))
    answer = api.call_function_objargs(asked, (given,))
    is_there = cgutils.is_not_null(builder, answer)
    with builder.if_then(is_there, likely=True):
        builder.store(builder.bitcast(api.long_as_voidptr(answer), WORD.as_pointer()), found)
        api.decref(answer)
    api.decref(asked)
    return NativeValue(builder.load(found), is_error=builder.not_(is_there))
