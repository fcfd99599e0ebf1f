"""The series of network partitions is of bounded size, and thinned evenly."""

import pytest

from pdes.results.tables import COLUMNS as TABLES
from pdes.skipping.look.partition_series import COLUMNS, PartitionSeries


@pytest.mark.parametrize("n_look", [0, 1, 7, 8, 9, 16, 17, 1000])
def test_every_look_is_there_or_every_other_power_of_two(n_look: int) -> None:
    series = PartitionSeries(max_rows=8)
    for look in range(n_look):
        series.add(10 * look, 5, 2, 1, 50 + look, 3)
    columns = series.columns()
    stride = 1
    while -(-n_look // stride) > 8:
        stride *= 2
    assert columns["time_ps"].tolist() == [10 * look for look in range(0, n_look, stride)]
    assert columns["flows"].tolist() == [50 + look for look in range(0, n_look, stride)]


def test_the_table_has_these_columns() -> None:
    assert TABLES["partitions"] == COLUMNS
