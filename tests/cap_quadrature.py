"""Means over a cap channel to rounding, from its density alone: the oracle of its factors, corrections and samplers."""

import itertools
import math

import numpy as np
from scipy import special

NODES = 120


def cosines(dimension, edges):
    """Nodes t and weights of the uniform law on the sphere in R^D, with breaks at the cosines given.

    In the angle the density is sin^(D - 2), which is smooth, so that Gauss' rule converges between breaks.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    angles = np.sort(np.concatenate([[0.0, math.pi], np.arccos(edges)]))
    points, masses = [], []
    for low, high in itertools.pairwise(angles):
        angle = (low + high) / 2 + (high - low) / 2 * nodes
        log_constant = special.gammaln(dimension / 2) - special.gammaln((dimension - 1) / 2) - math.log(math.pi) / 2
        points.append(np.cos(angle))
        masses.append((high - low) / 2 * weights * np.exp(log_constant) * np.sin(angle) ** (dimension - 2))
    return np.concatenate(points), np.concatenate(masses)


def circle(dimension):
    """Nodes z and weights of the cosine of a uniform point of the sphere in R^(D - 1)."""
    if dimension == 2:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    nodes, weights = special.roots_jacobi(40, (dimension - 4) / 2, (dimension - 4) / 2)
    return nodes, weights / weights.sum()


def channel_mean(function, *, epsilon, rim, dimension, cosine):
    """E f(<w, v>) over the released v, where <w, a> is a cosine: from the density e^epsilon or 1, normed by itself."""
    t, mass = cosines(dimension, [rim])
    mass = mass * np.where(t > rim, 1.0, math.exp(-epsilon))
    mass /= mass.sum()
    z, share = circle(dimension)
    across = np.multiply.outer(np.sqrt(1 - t**2), z) * math.sqrt(1 - cosine**2)
    return float(mass @ function(t[:, None] * cosine + across) @ share)
