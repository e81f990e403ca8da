import pytest

import metastable as ms
from tests.e2e.browser import chromium, needed
from tests.e2e.explorer_server import Server


@pytest.fixture(scope="session")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    """A folder with a run, a broken record, and a secret outside."""
    top = tmp_path_factory.mktemp("lab")
    folder = top / "records"
    run = ms.simulate(ms.Dynamics(beta=4.0), ms.initial.sphere(n=10, d=3), t=2.0, save=9)
    run.save(folder / "small-run")
    (folder / "broken").mkdir()
    (folder / "broken" / "provenance.json").write_text("{ not json")
    (folder / "study").mkdir()
    (folder / "study" / "provenance.json").write_text('{"kind": "study"}')
    (folder / "study" / "report.html").write_text("<!doctype html><h1 id=here>A study</h1>")
    (top / "secret.html").write_text("secret")
    (folder / "way-out").symlink_to(top)
    return folder


@pytest.fixture(scope="session")
def server(records):
    needed()
    pytest.importorskip("nicegui")
    found = Server(records)
    yield found
    found.kill()
