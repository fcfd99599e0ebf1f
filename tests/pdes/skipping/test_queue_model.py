"""The Transformer learns what can be learnt, says the same each time, and its file is what it was. Needs PyTorch."""

from pathlib import Path

import numpy as np
import pytest

from pdes.skipping.papers.queue_model import QueueModel, QueueModelError, Shape, load_model, train, windows

pytest.importorskip("torch", reason="the extra `learned` is not installed")
SHAPE = Shape(n_step=8)


@pytest.fixture(scope="module")
def model() -> QueueModel:
    """Of queues that drain to nothing after a high, and stay low after a low."""
    rng = np.random.default_rng(1)
    highs = [np.concatenate([np.full(8, high), np.zeros(8, np.int64)]) for high in rng.integers(50_000, 90_000, 300)]
    lows = [np.full(16, low) for low in rng.integers(1_000, 9_000, 300)]
    return train(*windows([*highs, *lows], 8, 1, 10**6), SHAPE, n_epoch=30)


def test_it_learns_what_is_there_to_learn(model: QueueModel) -> None:
    high, low = np.full((1, 8), 70_000), np.full((1, 8), 5_000)
    assert model.predict(high)[0] < 5_000 and abs(model.predict(low)[0] - 5_000) < 1_500


def test_a_file_gives_the_same_model_and_the_same_depths(model: QueueModel, tmp_path: Path) -> None:
    model.save(tmp_path / "one.pt")
    one, depths = load_model(tmp_path / "one.pt"), np.random.default_rng(2).integers(0, 90_000, (50, 8))
    assert one.shape == SHAPE and len(one.digest) == 64
    assert one.predict(depths).tolist() == model.predict(depths).tolist() == one.predict(depths).tolist()
    assert one.predict(depths).dtype == np.int64 and (one.predict(depths) >= 0).all()
    assert len(one.predict(depths[:0])) == 0


@pytest.mark.parametrize("content", [b"", b"no model", None])
def test_what_is_no_model_is_said(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(QueueModelError, match="cannot be read" if content is None else "is no model of queues"):
        load_model(tmp_path / "a.pt")
