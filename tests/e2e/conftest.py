import pytest

from tests.e2e.browser import chromium


@pytest.fixture(scope="session")
def browser():
    with chromium() as found:
        yield found
