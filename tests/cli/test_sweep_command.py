"""metastable sweep, and metastable plot of a sweep."""

import pandas
import pytest

SMALL = ("--n", 6, "--d", 2, "--t", 0.5, "--mask", "full")


def test_from_flags_to_a_table_and_pictures(metastable, tmp_path):
    words = ("sweep", *SMALL, "--beta", "0.5:2:3", "--seed", "0:4", "--observe", "order,clusters", "--times", "3")
    planned = metastable(*words, "--out", "out", "--dry-run", "--json").facts
    assert (planned["runs"], planned["chunks"]) == (12, 1)
    assert not (tmp_path / "out").exists()
    made = metastable(*words, "--out", "out", "--json").facts
    assert (made["runs"], made["computed"], made["failed"]) == (12, 12, [])
    table = pandas.read_parquet(tmp_path / "out" / "table.parquet")
    assert list(table.columns) == ["run", "seed", "beta", "time", "order", "clusters", "status"]
    assert len(table) == 36
    again = metastable(*words, "--out", "out")
    assert "already complete" in again.out
    more = [word if word != "0:4" else "0:6" for word in words]
    assert metastable(*more, "--out", "out", "--json").facts["computed"] == 6
    status = metastable("sweep", "--status", "out", "--json").facts
    assert (status["state"], status["runs"], status["runs_done"]) == ("finished", 18, 18)
    picture = metastable("plot", "out", "--kind", "heatmap", "--x", "beta", "--y", "time", "--value", "clusters")
    assert picture.code == 0
    assert (tmp_path / "out" / "heatmap.png").stat().st_size > 5000
    assert metastable("plot", "out", "--kind", "lines", "--x", "beta", "--by", "time", "--value", "order").code == 0


def test_from_a_file(metastable, tmp_path):
    (tmp_path / "grid.toml").write_text(
        '[simulate]\nn = 6\nd = 2\nt = 0.5\n[sweep]\nmask = ["full", "causal"]\ntimes = [0.5]\n'
    )
    made = metastable("sweep", "grid.toml", "--json").facts
    assert made["out"].startswith("sweeps/grid-")
    assert made["runs"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sweep",), "several values"),
        (("sweep", "--beta", "1:2"), "how many"),
        (("sweep", "--beta", "0.5..2"), "samples"),
        (("sweep", "--beta", "1,2", "--observe", "cluster"), "did you mean"),
        (("sweep", "--beta", "1,2", "--cluster", "nowhere"), "tcp://host:8786"),
        (("sweep", "--beta", "1,2", "--jobs", "-1"), "jobs"),
        (("sweep", "--status", "nowhere"), "There is no sweep"),
        (("sweep", "nowhere.toml"), "no file"),
    ],
)
def test_what_means_nothing_is_refused(metastable, words, said):
    metastable(*words).refused(said)


def test_a_picture_of_what_is_not_there_is_refused(metastable):
    metastable("sweep", *SMALL[:-1], "full,causal", "--beta", "1,2", "--times", "2", "--out", "out")
    metastable("plot", "out", "--x", "betta").refused("did you mean 'beta'")
    metastable("plot", "out", "--value", "order").refused("Unknown observable")
    metastable("plot", "out", "--x", "mask").refused("names for values")
    metastable("plot", "out", "--observable", "order").refused("observable")
