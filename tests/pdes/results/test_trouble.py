"""The line about drops, timeouts and pauses."""

import numpy as np

from pdes.results.trouble import count_trouble, trouble_text

NOTHING = {
    name: np.zeros(3, np.int64)
    for name in ("drops_buffer", "drops_loss", "drops_link", "pause_frames", "paused_ps", "ecn_marks")
}


def test_a_network_without_trouble_has_no_line():
    assert trouble_text({"network": count_trouble(NOTHING | {"ecn_marks": np.array([5, 0, 1])}, 0)}) == ""
    assert trouble_text({}) == ""


def test_every_kind_of_trouble_is_counted_and_named():
    ports = NOTHING | {
        "drops_buffer": np.array([1, 2, 0]),
        "drops_link": np.array([0, 0, 4]),
        "pause_frames": np.array([7, 0, 0]),
        "paused_ps": np.array([10**9, 0, 5 * 10**8]),
    }
    text = trouble_text({"network": count_trouble(ports, 12)})
    assert text == (
        "Network: 7 packets lost (3 by full buffers, 4 by links that were down); 12 retransmission timeouts; "
        "7 PFC pauses, ports stood 1.5 ms in all"
    )
