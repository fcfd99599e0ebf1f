"""A small Transformer that tells how deep a queue will be from how deep it was (HyGra section V-C, Algorithm 2).

It is trained once, on queue traces of simulated networks, and kept in a file; a run only asks it. PyTorch is imported
here alone, and only when one of the two is done: `pip install pdes-sim[learned]`.

An encoder reads the last depths of a port, one token per step (equations 9 and 10); what it makes of the last token is
the depth at the end of the skip (equation 11). Deviations: the paper gives neither size nor loss nor what is predicted
from which stretch. Here: two layers of four heads, width 32; smooth L1 of log(1 + depth / packet); the target is the
depth a random number of steps later, up to as many as are read, for the model is not told how long a skip lasts. A step
is a look, whose distance grows while nothing changes; in training it is the interval of the samples.

Deterministic: 32-bit floats, on the CPU, in one thread.
"""

import hashlib
import importlib
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdes.files import read_bytes

FORMAT = "pdes-sim queue model 1"
INSTALL = "pip install pdes-sim[learned]"


class QueueModelError(Exception):
    """Why there is no model: PyTorch is missing, or the file is none."""


@dataclass(frozen=True)
class Shape:
    """Of the network."""

    n_step: int = 16  # depths that are read
    width: int = 32
    n_head: int = 4
    n_layer: int = 2
    packet_bytes: int = 1000  # what depths are measured in


@dataclass
class QueueModel:
    """A trained network. digest: sha256 of its file."""

    shape: Shape
    net: Any
    digest: str = ""

    def predict(self, depth_bytes: np.ndarray) -> np.ndarray:
        """Depths after the skip. depth_bytes: int64[n, n_step], oldest first; int64[n], at least 0."""
        torch = _torch()
        torch.set_num_threads(1)
        if len(depth_bytes) == 0:
            return np.zeros(0, np.int64)
        with torch.inference_mode():
            out = self.net(torch.from_numpy(_encoded(depth_bytes, self.shape))).numpy().astype(np.float64)
        return np.maximum(np.rint(np.expm1(out) * self.shape.packet_bytes), 0).astype(np.int64)

    def save(self, path: Path) -> None:
        """Write the file."""
        content = {"format": FORMAT, "shape": asdict(self.shape), "weights": self.net.state_dict()}
        _torch().save(content, path)


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise QueueModelError(f"PyTorch is needed ({error}): {INSTALL}") from error


def _encoded(depth_bytes: np.ndarray, shape: Shape) -> np.ndarray:
    return np.log1p(depth_bytes / shape.packet_bytes).astype(np.float32)


def _make_net(shape: Shape) -> Any:
    torch = _torch()

    class Net(torch.nn.Module):
        """Tokens are depths with a learned code of their place."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Linear(1, shape.width)
            self.place = torch.nn.Parameter(torch.zeros(shape.n_step, shape.width))
            layer = torch.nn.TransformerEncoderLayer(
                shape.width, shape.n_head, 2 * shape.width, dropout=0.0, batch_first=True
            )
            self.encoder = torch.nn.TransformerEncoder(layer, shape.n_layer, enable_nested_tensor=False)
            self.head = torch.nn.Linear(shape.width, 1)

        def forward(self, depths: Any) -> Any:
            """[n, n_step] -> [n]: what is added to the last depth."""
            tokens = self.embed(depths.unsqueeze(-1)) + self.place
            return depths[:, -1] + self.head(self.encoder(tokens)[:, -1]).squeeze(-1)

    return Net()


def load_model(path: Path) -> QueueModel:
    """Read a file that `save` wrote. QueueModelError: it is none, or PyTorch is missing."""
    torch = _torch()
    try:
        content = read_bytes(path)
    except OSError as error:
        raise QueueModelError(f"cannot be read: {error.strerror}") from error
    try:
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        if found["format"] != FORMAT:
            raise ValueError(found["format"])
        shape = Shape(**found["shape"])
        net = _make_net(shape)
        net.load_state_dict(found["weights"])
    except Exception as error:  # whatever PyTorch makes of bytes that are something else
        raise QueueModelError("is no model of queues, or a damaged one") from error
    return QueueModel(shape, net.eval(), hashlib.sha256(content).hexdigest())


def windows(traces: Sequence[np.ndarray], n_step: int, seed: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n, n_step], int64[n]): stretches of traces with something in them, and a depth that comes later.

    traces: int64[], depths of a port at consecutive steps while it is in use. Of each stretch the target is 1 to n_step
    steps behind it, drawn. most: as many are kept, drawn.
    """
    rng, inputs, targets = np.random.default_rng(seed), [], []
    for trace in traces:
        n = len(trace) - 2 * n_step + 1
        if n > 0:
            found = np.lib.stride_tricks.sliding_window_view(trace, n_step)[:n]
            later = trace[np.arange(n) + n_step - 1 + rng.integers(1, n_step + 1, n)]
            used = found.any(axis=1) | (later > 0)
            inputs.append(found[used])
            targets.append(later[used])
    if not inputs:
        return np.zeros((0, n_step), np.int64), np.zeros(0, np.int64)
    every, later = np.concatenate(inputs), np.concatenate(targets)
    kept = np.sort(rng.permutation(len(every))[:most])
    return every[kept], later[kept]


def train(
    depth_bytes: np.ndarray, target_bytes: np.ndarray, shape: Shape, n_epoch: int = 10, seed: int = 1
) -> QueueModel:
    """Fit a network to windows; the same on the same machine each time."""
    torch = _torch()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    net, rng = _make_net(shape), np.random.default_rng(seed)
    inputs = torch.from_numpy(_encoded(depth_bytes, shape))
    targets = torch.from_numpy(_encoded(target_bytes, shape))
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(n_epoch):
        order = torch.from_numpy(rng.permutation(len(inputs)))
        for rows in order.split(256):
            optimiser.zero_grad()
            torch.nn.functional.smooth_l1_loss(net(inputs[rows]), targets[rows]).backward()
            optimiser.step()
    return QueueModel(shape, net.eval())
