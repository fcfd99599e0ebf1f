"""The pool of packets with what lies beside it, as one argument for steps of a host that make packets or take them."""

from typing import NamedTuple

import numpy as np

from pdes.engine.jit import inlined


class PacketPool(NamedTuple):
    """Five arrays of `records.Fabric`: what a call hands over of it."""

    packets: np.ndarray
    label: np.ndarray
    extra: np.ndarray
    counters: np.ndarray
    constants: np.ndarray


@inlined
def pool_of(fabric):
    """The pool of a fabric."""
    return PacketPool(fabric.packets, fabric.label, fabric.extra, fabric.counters, fabric.constants)
