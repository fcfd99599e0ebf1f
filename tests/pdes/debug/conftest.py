"""Runs that are looked into go one after another in processes that stand by; in the tier `all` each has its own."""

from collections.abc import Iterator

import pytest

from reference.debug_runs import Standing


@pytest.fixture(scope="session")
def standing() -> Iterator[Standing]:
    found = Standing()
    yield found
    found.end()


@pytest.fixture(autouse=True)
def run_by_who_stands_by(
    request: pytest.FixtureRequest, standing: Standing, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    if pytestconfig.getoption("tier") != "all" and hasattr(request.module, "run"):
        monkeypatch.setattr(request.module, "run", standing.run)
