"""Exact sandwich covariances of corrected fits under normal noise, for records that are given: closed forms.

Each function returns the Hessian of the uncorrected risk and the second moments of the corrected gradient, the noise
integrated out, over records X of shape (n, p), y of shape (n,) and weights of shape (n,) that sum to one.
"""

import numpy as np


def outer(first, second):
    return first[:, :, None] * second[:, None, :]


def exponential(X, y, weights, theta, noise, keep=1.0):
    """exp(-y u), labels kept with probability `keep` and exchanged else."""
    u, moved, s = X @ theta, noise @ theta, theta @ noise @ theta
    right, wrong = keep / (2 * keep - 1), (1 - keep) / (2 * keep - 1)

    def square(label):
        # E of e^(-2 a u~ - s) (a x~ + D theta)(a x~ + D theta)': the exponential moves x~ by -2 a D theta.
        rows = label[:, None] * X - moved
        return np.exp(-2 * label * u + s)[:, None, None] * (outer(rows, rows) + noise)

    cross = np.exp(-s) * (np.outer(moved, moved) - outer(X, X) - noise)
    second = 0.0
    for label, chance in ((y, keep), (-y, 1 - keep)):
        one = right**2 * square(label) + wrong**2 * square(-label) - 2 * right * wrong * cross
        second = second + chance * one
    hessian = (X.T * (weights * np.exp(-y * u))) @ X
    return hessian, np.einsum("n,nij->ij", weights, second)


def poisson(X, y, weights, theta, noise):
    """e^u - y u."""
    u, moved, s = X @ theta, noise @ theta, theta @ noise @ theta
    square = np.exp(2 * u + s)[:, None, None] * (outer(X + moved, X + moved) + noise)
    cross = np.exp(u)[:, None, None] * (outer(X, X + moved) + noise)
    cross = y[:, None, None] * (cross + cross.swapaxes(1, 2))
    second = square - cross + (y**2)[:, None, None] * (outer(X, X) + noise)
    return (X.T * (weights * np.exp(u))) @ X, np.einsum("n,nij->ij", weights, second)


def least_squares(X, y, weights, theta, noise):
    """(u - y)^2/2."""
    residual, moved, s = X @ theta - y, noise @ theta, theta @ noise @ theta
    rows = X * residual[:, None]
    mixed = residual[:, None, None] * (outer(X, np.broadcast_to(moved, X.shape)))
    second = outer(rows, rows) + s * outer(X, X) + mixed + mixed.swapaxes(1, 2)
    second += (residual**2)[:, None, None] * noise + s * noise + np.outer(moved, moved)
    return (X.T * weights) @ X, np.einsum("n,nij->ij", weights, second)


def quadratic(q, p, weights, theta, q_variance, p_variance):
    """(q'theta)^2/2 - p'theta, with independent noise on q and p."""
    u, eye = q @ theta, np.eye(len(theta))
    hessian, second = least_squares(q, np.zeros(len(q)), weights, theta, q_variance * eye)
    without, rows = q * u[:, None], q * u[:, None] - p
    return hessian, second + (rows.T * weights) @ rows - (without.T * weights) @ without + p_variance * eye


def covariance(moments, theta, l2=0.0):
    """The covariance of sqrt(n) theta at the root of the penalised equation."""
    hessian, second = moments
    bread = np.linalg.inv(hessian + l2 * np.eye(len(theta)))
    return bread @ (second - l2**2 * np.outer(theta, theta)) @ bread
