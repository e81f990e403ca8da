"""Limit sets: distances known by hand, and sets that real flows do reach."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.theory import limits
from metastable.theory.leading import leading, paranormal_splitting
from metastable.theory.spectrum import growing, split
from tests.theory.particle_flow import flow, rescaled_velocity

SQUARE = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])


def test_points():
    assert limits.Points(np.zeros((1, 2))).distance([[3.0, 4.0], [0.0, 0.0]]).tolist() == [5.0, 0.0]
    assert limits.Points(np.eye(2)).distance([[1.0, 0.5]]).tolist() == [0.5]
    assert "origin" in limits.Points(np.zeros((1, 2))).describe()


def test_boolean_attention():
    x = np.array([[0.3], [-2.0], [5.0]])
    target = limits.boolean_attention_of(x)
    assert (target.left, target.right) == (1, 2)
    P = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0], [1e-20, 0.0, 1.0]])
    assert target.distance(P) == pytest.approx([0.5, 0.0, 1e-20], rel=1e-12)
    assert target.rank(P) == 2
    assert limits.boolean_attention_of([[1.0]]).distance(np.ones((1, 1))).tolist() == [0.0]


def test_polytope_distances():
    polytope = limits.polytope_of(SQUARE, np.eye(2))
    z = np.array([[1.0, 1.0], [1.0, 0.0], [0.5, 0.0], [0.0, 0.0], [0.1, 0.1], [1.0, 0.5]])
    # a vertex and an edge's middle are limit points; (1, 1/2) lies on the edge but looks at the vertex
    expected = [0.0, 0.0, 0.5, 0.0, 0.1 * np.sqrt(2), 0.25 / np.sqrt(1.25)]
    assert polytope.distance(z) == pytest.approx(expected, abs=1e-15)
    exact = polytope.boundary_distance(z)
    assert exact == pytest.approx([0.0, 0.0, 0.5, 1.0, 0.9, 0.0], abs=1e-12)
    assert (np.minimum(exact, np.linalg.norm(z, axis=1)) <= polytope.distance(z) + 1e-12).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_identity_residual_bounds_the_boundary_distance(d):
    rng = np.random.default_rng(d)
    points = rng.standard_normal((20, d))
    B = rng.standard_normal((d, d))
    polytope = limits.polytope_of(points, B @ B.T + 0.1 * np.eye(d))
    inside = rng.dirichlet(np.ones(20), 50) @ points
    face = np.minimum(polytope.boundary_distance(inside), np.linalg.norm(inside, axis=1))
    assert (face <= polytope.distance(inside) + 1e-12).all()


def test_polytope_vertices():
    rng = np.random.default_rng(0)
    inner = rng.uniform(-0.9, 0.9, (30, 2))
    near = SQUARE + 1e-9 * rng.standard_normal(SQUARE.shape)
    polytope = limits.polytope_of(np.concatenate([inner, SQUARE, near]), np.eye(2))
    vertices = polytope.vertices(1e-6)
    assert sorted(np.round(vertices, 6).tolist()) == sorted(SQUARE.tolist())
    lone = limits.polytope_of(np.ones((4, 3)), np.eye(3))
    assert len(lone.vertices(1e-6)) == 1
    with pytest.raises(InputError, match="d <= 6"):
        limits.polytope_of(np.eye(7), np.eye(7)).boundary_distance(np.eye(7))


def test_hyperplanes():
    planes = limits.hyperplanes_of([[2.0, 9.0], [-1.0, 3.0], [1.5, 0.0], [0.1, 0.0]], [2.0, 0.0])
    assert planes.levels == (-2.0, 0.0, 4.0)
    assert planes.distance([[2.0, 7.0], [1.5, 0.0], [0.1, 1.0]]) == pytest.approx([0.0, 0.5, 0.1])
    assert planes.occupied([[2.0, 7.0], [1.9, 0.0]]) == 1
    assert limits.hyperplanes_of([[2.0], [1.0]], [1.0]).levels == (0.0, 2.0)


def test_polytope_times_subspace_ignores_the_subspace():
    S = np.array([[1.0, 0.0, 0.4], [0.0, 1.0, -0.3], [0.0, 0.0, 1.0]])
    V = S @ np.diag([1.0, 1.0, -0.5]) @ np.linalg.inv(S)
    found, parts = paranormal_splitting(V)
    assert found.holds is True
    assert parts is not None
    rng = np.random.default_rng(0)
    flat = np.concatenate([SQUARE, np.zeros((4, 1))], axis=1)
    tokens = flat + rng.uniform(-50, 50, (4, 1)) * S[:, 2]
    target = limits.polytope_times_subspace_of(tokens, np.eye(3), parts)
    assert target.distance(tokens) == pytest.approx(np.zeros(4), abs=1e-12)
    assert target.distance([0.5, 0.0, 0.0] + 7.0 * S[None, :, 2]) == pytest.approx([0.5], abs=1e-12)
    assert "dimension 2" in target.describe()


def test_parallel_subspaces():
    V = np.diag([2.0, 1.0, -1.0])
    parts = split(V, growing)
    rng = np.random.default_rng(0)
    centres = np.array([[1.0, 2.0], [-3.0, 0.0]])
    tokens = np.concatenate([np.repeat(centres, 5, axis=0), rng.uniform(-9, 9, (10, 1))], axis=1)
    target = limits.parallel_subspaces_of(tokens, parts)
    assert len(target.rows) == 2
    assert target.distance(tokens) == pytest.approx(np.zeros(10), abs=1e-12)
    four = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0], [0, -1.0, 0]])
    assert limits.parallel_subspaces_of(four, parts).distance(four).max() > 0.5  # four clusters are one too many


def test_true_flows_reach_their_sets():
    """Theorems 3.1 and 4.1 with a flow of SciPy's, to times at which plain coordinates are still right."""
    z0 = np.random.default_rng(5).uniform(-3, 3, (10, 2))
    z = flow(lambda t, z: rescaled_velocity(t, z, np.eye(2)), z0, [9.0], rtol=1e-9, atol=1e-11)[0]
    # saturated since t = 1 or so, followers close in like e^{-t}
    assert limits.polytope_of(z, np.eye(2)).distance(z).max() < 10 * np.exp(-8.0)
    assert limits.polytope_of(z0, np.eye(2)).distance(z0).max() > 0.5

    V = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
    z = flow(lambda t, z: rescaled_velocity(t, z, V), z0, [7.0], rtol=1e-9, atol=1e-11)[0]
    assert limits.hyperplanes_of(z, leading(V).left).distance(z).max() < 10 * np.exp(-1.348 * 6.0)
