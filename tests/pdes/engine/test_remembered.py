"""What is kept from one compilation to the next is what Numba would find out again."""

import itertools
from typing import Any

import numpy as np
import pytest
from numba.core import errors, ir, types
from numba.core.compiler import Flags, run_frontend
from numba.core.registry import cpu_target
from numba.core.targetconfig import TargetConfig

from pdes.engine.compiling import remembered
from pdes.engine.jit import JIT_DISABLED, loop_kernel, record, step_kernel

COMPILED = pytest.mark.skipif(JIT_DISABLED, reason="there is no compiled code")
ROW = record([("time_ps", np.int64), ("share", np.float64), ("is_up", np.bool_)])


@step_kernel
def _add(rows, i, n):
    rows[i].time_ps += n << 2
    rows[i].share = max(rows[i].share, n / 3)
    return rows[i].is_up and rows[i].time_ps > n


@loop_kernel
def _work(rows, words):
    found = 0
    for i in range(rows.size):
        if _add(rows, i, words[i % words.size]) and not words[0] == 7:
            found += min(i, 3) - abs(words[1:].sum())
    return found


def _statements(function: Any) -> list[Any]:
    return [one for block in run_frontend(function).blocks.values() for one in block.body]


@COMPILED
def test_signatures_are_those_that_numba_finds() -> None:
    _work(np.zeros(3, ROW), np.arange(4))
    found = [(key, owner, signature) for key, (owner, signature) in remembered._found.items()]
    assert len(found) > 20
    context, n = cpu_target.typing_context, 0
    for (_, of_context, args, kws, _), owner, signature in found:
        if of_context == id(context):
            again, n = remembered._get_call_type(owner, context, args, dict(kws)), n + 1
            assert (again.return_type, again.args, again.recvr) == (
                signature.return_type, signature.args, signature.recvr,
            )  # fmt: skip
    assert n > 20


@COMPILED
def test_variables_are_all_of_a_statement_in_order() -> None:
    """Numba's own method is written out, as it is replaced by now."""

    def below(value: Any) -> list[str]:
        if isinstance(value, ir.Var):
            return [value.name]
        if isinstance(value, ir.Expr):
            return below(value._kws)
        if isinstance(value, ir.Inst):
            return below(value.__dict__) if isinstance(value, ir.Stmt) else []
        if isinstance(value, list | tuple | dict):
            return [name for one in (value.values() if isinstance(value, dict) else value) for name in below(one)]
        return []

    statements = _statements(_work.py_func) + _statements(_add.py_func)
    assert [[var.name for var in one.list_vars()] for one in statements] == [below(one) for one in statements]
    assert sum(map(len, map(below, statements))) > 100


def test_options_are_the_same_if_all_their_values_are() -> None:
    default, named, other = Flags(), Flags(), Flags()
    named.nrt = default.nrt  # said, and the same
    other.boundscheck = True
    for a, b in itertools.product((default, named, other), repeat=2):
        assert (a == b) == (a.values() == b.values())
        assert hash(a) == hash(b) == hash(tuple(sorted(a.values())))
    assert default != "x"


def test_it_replaces_what_numba_has() -> None:
    """All of it is in use: a version of Numba that names things otherwise is seen here."""
    assert types.Function.get_call_type is remembered._call_type
    assert TargetConfig.__hash__ is remembered._options_hash and ir.Inst._rec_list_vars is remembered._variables
    assert errors.termcolor().errmsg("x") == "x" == errors.termcolor().highlight("x")
