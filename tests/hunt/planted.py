"""Instances whose end is known, all of one shape (8 tokens in dimension 3) so that they share compiled code."""

import numpy as np

from metastable.hunt.instances import Batch, joined

ANGLE = np.pi / 4
TURN = 1.8


def one(a, b, G, z, lead=1, leads=1):
    """A batch of one instance; a pair of directions turns where b is not 0."""
    a, b = np.array(a, dtype=float), np.array(b, dtype=float)
    partner = np.arange(3)
    for i in np.flatnonzero(b > 0):
        partner[i], partner[i + 1] = i + 1, i
    parts = {
        "a": a,
        "b": b,
        "partner": partner,
        "grows": a > 0,
        "lead": np.array(lead),
        "G": np.array(G, dtype=float)[None],
        "E": np.zeros((1, 3, 3)),
        "z": np.array(z, dtype=float),
        "scores": np.array(1),
        "leads": np.array(leads),
        "origin": np.array(0),
        "name": np.zeros(2, dtype=int),
    }
    return Batch(**{k: v[None] for k, v in parts.items()})


def polygon(size=1.0, first=0.0):
    angles = 2 * np.pi * np.arange(8) / 8
    return np.stack([np.full(8, first), size * np.cos(angles), size * np.sin(angles)], axis=1)


def ring(z=None):
    """Cyclic pursuit: every token looks ANGLE back, so the polygon grows like Re(lambda e^{-i ANGLE})."""
    c, s = np.cos(ANGLE), np.sin(ANGLE)
    G = [[1, 0, 0], [0, c, s], [0, -s, c]]
    noise = np.random.default_rng(0).normal(size=(8, 3)) * [0.2, 0.02, 0.02]
    return one([1, 0.6, 0.6], [0, TURN, -TURN], G, polygon(2.5) + noise if z is None else z)


def race():
    """The same pursuit in a good triple: at rate 0.849 it is overtaken by the leading direction, but from a first
    coordinate of 1e-4 only at about t = ln(2.5e4)/0.151 = 67; until then the polygon grows."""
    c, s = np.cos(ANGLE), np.sin(ANGLE)
    G = [[1, 0.5, 0.3], [0.2, c, s], [-0.4, -s, c]]
    return one([1, 0.5, 0.5], [0, 0.7, -0.7], G, polygon(2.5, 1e-4), leads=0)


def split():
    """A good triple whose Q^T K = 1 + R does not couple the leading direction with the plane: pursuit of five tokens
    grows at rate 0.9 for ever, since 2 * 0.9 > 1 + cos(72 degrees), from an open set of tokens."""
    angle = 2 * np.pi / 5
    c, s = np.cos(angle), np.sin(angle)
    turns = angle * np.array([0, 1, 2, 3, 4, 0, 1, 2])
    noise = 0.05 * np.random.default_rng(3).normal(size=(8, 3))
    z = np.stack([np.ones(8), 2.5 * np.cos(turns), 2.5 * np.sin(turns)], axis=1) + noise
    a, b = 0.9 * c, 0.9 * s
    return one([1, a, a], [0, b, -b], [[1, 0, 0], [0, c, s], [0, -s, c]], z, leads=0)


def shared():
    """V = diag(1, 1, 1/2): a square of leaders, Theorem 5.1."""
    z = np.random.default_rng(1).normal(size=(8, 3)) * 0.3
    z[:4, :2] = [[2, 0], [0, 2], [-2, 0.1], [0.1, -2]]
    return one([1, 1, 0.5], [0, 0, 0], np.eye(3), z, lead=2)


def cross(first=0.0):
    """V = diag(1, 1/2, -1/2): tokens on the axes stay there; off them by ``first`` they leave after ln(1/first)."""
    z = [[2, 0, 0], [-2, 0, 0], [0, 2, 0], [0, -2, 0]] * 2
    return one([1, 0.5, -0.5], [0, 0, 0], np.eye(3), np.array(z, dtype=float) + np.array([first, 0, 0]))


def plain():
    """A good triple with random tokens."""
    return one([1, 0.5, -0.5], [0, 0, 0], np.eye(3), np.random.default_rng(2).normal(size=(8, 3)), leads=0)


def everything():
    return joined([ring(), shared(), cross(), cross(1e-7), plain(), race(), split()])
