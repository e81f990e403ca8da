import pytest

from tests.plots.plot_runs import walk


@pytest.fixture(scope="session")
def sphere():
    return walk()


@pytest.fixture(scope="session")
def circle():
    return walk(n=24, d=2, beta=4.0, t=5.0)


@pytest.fixture(scope="session")
def short_run():
    return walk(n=12, t=2.0)
