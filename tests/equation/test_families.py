"""Token clouds and families of matrices: seeded, and of the law they claim."""

from inspect import signature

import numpy as np
import pytest
from scipy.special import betainc

import metastable as ms
from metastable import initial
from metastable.equation import weights


def test_seeds_reproduce_and_ensembles_replay():
    drawn = {name: draw for name, draw in initial.INITIAL.items() if "seed" in signature(draw).parameters}
    assert set(initial.INITIAL) - set(drawn) == {"equiangular"}
    for name, draw in drawn.items():
        assert np.array_equal(draw(6, 3, seed=7), draw(6, 3, seed=7)), name
        assert not np.array_equal(draw(6, 3, seed=7), draw(6, 3, seed=8)), name
        many = draw(6, 3, seed=7, runs=4)
        assert many.shape == (4, 6, 3)
        assert np.array_equal(many[2], draw(6, 3, seed=(7, 2))), name


@pytest.mark.parametrize("d", [2, 3, 6])
def test_sphere_is_uniform(d):
    x = initial.sphere(20_000, d, seed=1)
    assert np.abs(np.linalg.norm(x, axis=1) - 1).max() < 1e-14
    assert np.abs(x.mean(axis=0)).max() < 4 / np.sqrt(20_000 * d)
    assert np.abs(x.T @ x / 20_000 - np.eye(d) / d).max() < 4 * np.sqrt(2) / d / np.sqrt(20_000)


@pytest.mark.parametrize(("d", "angle"), [(2, 1.0), (3, 1.0), (5, 1.0), (5, 2.5)])
def test_cap_has_its_angle_law(d, angle):
    theta = np.arccos(initial.cap(20_000, d, angle=angle, seed=2)[:, 0])
    assert theta.max() <= angle + 1e-12

    def mass(a):
        half = 0.5 * betainc((d - 1) / 2, 0.5, np.sin(a) ** 2)
        return half if a <= np.pi / 2 else 1 - half

    for share in (0.3, 0.7):
        expected = mass(share * angle) / mass(angle)
        assert abs((theta < share * angle).mean() - expected) < 4 * 0.5 / np.sqrt(20_000)


def test_cube_gaussian_and_clusters():
    x = initial.cube(20_000, 2, seed=3)
    assert np.abs(x).max() <= 5
    assert np.abs(x.var(axis=0) - 25 / 3).max() < 0.2
    g = initial.gaussian(20_000, 2, scale=2.0, seed=3)
    assert np.abs(g.var(axis=0) - 4).max() < 0.2
    c = initial.clusters(30, 3, count=5, spread=0.0, seed=3)
    assert len(np.unique(c.round(9), axis=0)) == 5


@pytest.mark.parametrize("gamma", [-0.25, 0.0, 0.6, 1.0])
def test_equiangular(gamma):
    x = initial.equiangular(5, gamma=gamma)
    assert np.abs(x @ x.T - (gamma + (1 - gamma) * np.eye(5))).max() < 1e-12
    assert initial.equiangular(5, 9, gamma=0.1).shape == (5, 9)
    assert initial.equiangular(5, 4, gamma=-0.25).shape == (5, 4)


def test_moments_of_the_random_matrices():
    many = np.stack([weights.ginibre(6, s) for s in range(800)])
    assert abs(many.mean()) < 0.03
    assert abs(many.var() - 1) < 0.03
    many = np.stack([weights.goe(6, s) for s in range(800)])
    assert np.array_equal(many, np.swapaxes(many, 1, 2))
    assert abs(many[:, np.arange(6), np.arange(6)].var() - 2) < 0.15
    assert abs(many[:, 0, 1].var() - 1) < 0.15
    many = np.stack([weights.psd(4, s) for s in range(800)])
    assert np.linalg.eigvalsh(many).min() > 0
    assert abs(np.trace(many, axis1=1, axis2=2).mean() - 16 / 3) < 0.1
    many = np.stack([weights.perron(4, s) for s in range(800)])
    assert many.min() > 0
    assert abs(many.mean() - 0.5) < 0.02
    many = np.stack([weights.orthogonal(3, s) for s in range(800)])
    assert np.abs(np.einsum("kab,kcb->kac", many, many) - np.eye(3)).max() < 1e-12
    assert np.abs((many**2).mean(axis=0) - 1 / 3).max() < 0.06  # Haar: every entry alike


def test_paranormal_and_published_sparse_spectra():
    V = weights.paranormal(6, 3, multiplicity=2, leading=1.5)
    values = np.sort(np.abs(np.linalg.eigvals(V)))
    assert np.abs(values[-2:] - 1.5).max() < 1e-10
    assert values[-3] <= 0.75 + 1e-9
    assert np.linalg.matrix_rank(V - 1.5 * np.eye(6), tol=1e-9) == 4
    assert np.abs(np.linalg.eigvalsh(weights.sparse_symmetric(128, 0))).min() >= 1 - 1e-9


@pytest.mark.parametrize("basis", ["diagonal", "orthogonal", "random"])
def test_matrices_from_eigenvalues(basis):
    asked = [1.0, -0.5, 0.3 + 2j, 0.3 - 2j]
    found = np.linalg.eigvals(weights.from_eigenvalues(asked, basis, seed=1))
    key = lambda v: (round(v.real, 9), round(v.imag, 9))  # noqa: E731
    assert np.abs(np.array(sorted(found, key=key)) - np.array(sorted(asked, key=key))).max() < 1e-12


def test_arrays_from_files(tmp_path):
    array = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "a.npy", array)
    np.savetxt(tmp_path / "a.csv", array, delimiter=",")
    assert np.array_equal(weights.from_file(tmp_path / "a.npy"), array)
    assert np.array_equal(weights.from_file(tmp_path / "a.csv"), array)


BAD_FILES = {
    "pickle.npy": lambda p: np.save(p, np.array([{"a": 1}], dtype=object), allow_pickle=True),
    "text.npy": lambda p: p.write_text("hello"),
    "empty.npy": lambda p: p.write_bytes(b""),
    "cut.npy": lambda p: (np.save(p, np.ones((50, 50))), p.write_bytes(p.read_bytes()[:300])),
    "complex.npy": lambda p: np.save(p, np.ones((2, 2)) * 1j),
    "words.csv": lambda p: p.write_text("a,b\nc,d\n"),
    "ragged.csv": lambda p: p.write_text("1,2\n3\n"),
    "binary.csv": lambda p: p.write_bytes(b"\xff\xfe\x00\x01"),
    "array.txt": lambda p: p.write_text("1 2"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_unreadable_or_hostile_files_are_refused(name, tmp_path):
    BAD_FILES[name](tmp_path / name)
    with pytest.raises(ms.InputError) as refusal:
        weights.from_file(tmp_path / name)
    assert "\n" not in str(refusal.value)


BAD = [
    lambda: initial.sphere(0, 3),
    lambda: initial.sphere(3, 0),
    lambda: initial.sphere(2.5, 3),
    lambda: initial.sphere(3, 3, seed=-1),
    lambda: initial.cap(3, 3, angle=4.0),
    lambda: initial.clusters(3, 3, count=4),
    lambda: initial.equiangular(4, 2),
    lambda: initial.equiangular(4, gamma=-0.9),
    lambda: initial.tokens_from_file("nowhere.npy"),
    lambda: weights.family("ginibri", 3),
    lambda: weights.ginibre(0),
    lambda: weights.from_eigenvalues([1j]),
    lambda: weights.from_eigenvalues([]),
    lambda: weights.from_eigenvalues([1.0], basis="odd"),
    lambda: weights.stack([]),
]


@pytest.mark.parametrize("make", BAD)
def test_bad_requests_get_a_sentence(make):
    with pytest.raises(ms.InputError) as refusal:
        make()
    assert "\n" not in str(refusal.value)
