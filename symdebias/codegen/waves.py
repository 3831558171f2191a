"""Kernels on waves of scores, the same for every loss: sums of waves for each record, and over the records.

A wave exp(i k a) is the one before times exp(i a), so that a record has one sine and one cosine. Four of them at a time
are made for a block of records, which stay in the nearest cache.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.codegen.cache import KernelSource, compile_kernel
from symdebias.codegen.kernels import FASTMATH, prelude
from symdebias.codegen.workspace import zeros

ComplexArray = np.ndarray[Any, np.dtype[np.complex128]]

# Records of a block, and waves that are made of it at a time: real and imaginary parts in rows one below the other, and
# then those of the last wave without what tables make of it.
_BLOCK, _AT_ONCE = 256, 4
_ROWS = 2 * _AT_ONCE + 2

_vector = numba.types.Array(numba.float64, 1, "C", readonly=True)
_lines = numba.types.Array(numba.float64, 2, "C")
_planes = numba.types.Array(numba.float64, 3, "C", readonly=True)
_codes = numba.types.Array(numba.int64, 2, "C", readonly=True)

_NEXT = f"""@helper()
def begin_waves(waves):
    for i in range({_BLOCK}):
        waves[{_ROWS - 2}, i] = 1.0
        waves[{_ROWS - 1}, i] = 0.0


@helper()
def next_waves(cosines, sines, codes, tables, start, end, first, waves):
    cosine, sine = cosines[start:end], sines[start:end]
    for i in range(end - start):
        x, y = cosine[i], sine[i]
        last, beside = waves[{_ROWS - 2}, i], waves[{_ROWS - 1}, i]
        a, b = last*x - beside*y, last*y + beside*x
        c, d = a*x - b*y, a*y + b*x
        e, f = c*x - d*y, c*y + d*x
        g, h = e*x - f*y, e*y + f*x
        waves[0, i], waves[1, i], waves[2, i], waves[3, i] = a, b, c, d
        waves[4, i], waves[5, i], waves[6, i], waves[7, i] = e, f, g, h
        waves[8, i], waves[9, i] = g, h
    for j in range(codes.shape[0]):
        for k in range({_AT_ONCE}):
            for i in range(end - start):
                row = codes[j, start + i]
                x, y = tables[0, row, first + k], tables[1, row, first + k]
                a, b = waves[2*k, i], waves[2*k + 1, i]
                waves[2*k, i], waves[2*k + 1, i] = a*x - b*y, a*y + b*x
"""

_FOR_RECORDS = f"""
def kernel(cosines, sines, codes, tables, coefficients, out, waves):
    for start in range(0, cosines.shape[0], {_BLOCK}):
        end = min(start + {_BLOCK}, cosines.shape[0])
        begin_waves(waves)
        for first in range(0, coefficients.shape[2], {_AT_ONCE}):
            next_waves(cosines, sines, codes, tables, start, end, first, waves)
            for m in range(coefficients.shape[1]):
                a, b = coefficients[0, m, first], coefficients[1, m, first]
                c, d = coefficients[0, m, first + 1], coefficients[1, m, first + 1]
                e, f = coefficients[0, m, first + 2], coefficients[1, m, first + 2]
                g, h = coefficients[0, m, first + 3], coefficients[1, m, first + 3]
                line = out[m, start:end]
                for i in range(end - start):
                    line[i] += (
                        a*waves[0, i] - b*waves[1, i] + c*waves[2, i] - d*waves[3, i]
                        + e*waves[4, i] - f*waves[5, i] + g*waves[6, i] - h*waves[7, i]
                    )
"""

_OVER_RECORDS = f"""
def kernel(cosines, sines, codes, tables, masses, out, waves):
    for start in range(0, cosines.shape[0], {_BLOCK}):
        end = min(start + {_BLOCK}, cosines.shape[0])
        begin_waves(waves)
        for first in range(0, out.shape[1]//2, {_AT_ONCE}):
            next_waves(cosines, sines, codes, tables, start, end, first, waves)
            for m in range(masses.shape[1]):
                mass, line = masses[0, m, start:end], out[m, 2*first:]
                a = b = c = d = e = f = g = h = 0.0
                for i in range(end - start):
                    a += mass[i]*waves[0, i]
                    b += mass[i]*waves[1, i]
                    c += mass[i]*waves[2, i]
                    d += mass[i]*waves[3, i]
                    e += mass[i]*waves[4, i]
                    f += mass[i]*waves[5, i]
                    g += mass[i]*waves[6, i]
                    h += mass[i]*waves[7, i]
                line[0] += a
                line[1] += b
                line[2] += c
                line[3] += d
                line[4] += e
                line[5] += f
                line[6] += g
                line[7] += h
"""


@functools.cache
def source(*, over_records: bool) -> KernelSource:
    """Return the generated source of a kernel: of sums for each record, or over the records."""
    name = "sums_of_waves_over_records" if over_records else "sums_of_waves"
    body = f"{prelude(frozenset())}\n\n\n{_NEXT}\n{_OVER_RECORDS if over_records else _FOR_RECORDS}"
    text = f'"""Generated: {name}."""\n{body}'
    signature = numba.void(_vector, _vector, _codes, _planes, _planes, _lines, _lines)
    return KernelSource(name, text, signature, FASTMATH, _probe_over_records if over_records else _probe)


def sums_of_waves(
    angles: FloatArray, tables: Sequence[tuple[ComplexArray, IntegerArray]], coefficients: ComplexArray
) -> FloatArray:
    """Return the real parts of sum_k c_mk w_k for each record, of waves w_k = exp(i k a) times factors of categories.

    Parameters
    ----------
    angles : array of shape (n,), float64
        a.
    tables : sequence of tuples of arrays of shapes (c, K) and (n,)
        Factors of each wave by category, and the category of each record.
    coefficients : array of shape (m, K), complex128
        c, for k = 1, ..., K.

    Returns
    -------
    array of shape (n, m), float64
        The sums.
    """
    return _sums_of_waves(_compiled(over_records=False), angles, tables, coefficients)


def sums_over_records(
    angles: FloatArray, tables: Sequence[tuple[ComplexArray, IntegerArray]], masses: FloatArray, count: int
) -> ComplexArray:
    """Return the sums over the records of their masses times each of as many waves as are asked for, shape (m, K).

    Parameters
    ----------
    angles, tables
        As for `sums_of_waves`.
    masses : array of shape (m, n), float64
        The masses.
    count : int
        K.
    """
    return _sums_over_records(_compiled(over_records=True), angles, tables, masses, count)


def _compiled(*, over_records: bool) -> Callable[..., Any]:
    return compile_kernel(source(over_records=over_records))


def _sums_of_waves(
    kernel: Callable[..., Any], angles: FloatArray, tables: Sequence[tuple[ComplexArray, IntegerArray]],
    coefficients: ComplexArray,
) -> FloatArray:  # fmt: skip
    out = np.zeros((len(coefficients), len(angles)))
    kernel(*_described(angles, tables, coefficients.shape[1]), _padded(coefficients), out, *zeros((_ROWS, _BLOCK)))
    return out.T


def _sums_over_records(
    kernel: Callable[..., Any], angles: FloatArray, tables: Sequence[tuple[ComplexArray, IntegerArray]],
    masses: FloatArray, count: int,
) -> ComplexArray:  # fmt: skip
    out = np.zeros((len(masses), 2 * _whole(count)))
    kernel(*_described(angles, tables, count), np.ascontiguousarray(masses[None]), out, *zeros((_ROWS, _BLOCK)))
    return out.view(np.complex128)[:, :count]


def _described(
    angles: FloatArray, tables: Sequence[tuple[ComplexArray, IntegerArray]], count: int
) -> tuple[FloatArray, FloatArray, IntegerArray, FloatArray]:
    """Return what a kernel takes of waves: categories of all columns are numbered one after another."""
    codes, first = np.empty((len(tables), len(angles)), dtype=np.int64), 0
    for own, (table, of_records) in zip(codes, tables, strict=True):
        np.add(of_records, first, out=own)
        first += len(table)
    factors = np.concatenate([np.zeros((0, count), complex), *(table for table, _ in tables)])
    return np.cos(angles), np.sin(angles), codes, _padded(factors)


def _padded(numbers: ComplexArray) -> FloatArray:
    """Return the real and the imaginary parts of numbers, with zeros for waves that are made and not asked for."""
    found = np.zeros((2, len(numbers), _whole(numbers.shape[1])))
    found[0, :, : numbers.shape[1]], found[1, :, : numbers.shape[1]] = numbers.real, numbers.imag
    return found


def _whole(count: int) -> int:
    return -(-count // _AT_ONCE) * _AT_ONCE


def _example() -> tuple[FloatArray, list[tuple[ComplexArray, IntegerArray]], ComplexArray]:
    """Return angles, tables and coefficients of fixed inputs."""
    waves = np.exp(1j * np.arange(15.0)).reshape(3, 5)
    return np.sin(1.0 + np.arange(7.0)), [(waves, np.arange(7) % 3)], waves[:2] / 2


def _probe(kernel: Callable[..., Any]) -> Sequence[float]:
    """Return a call on fixed inputs whose answer a kernel read from disk must repeat."""
    return [float(value) for value in _sums_of_waves(kernel, *_example()).ravel()]


def _probe_over_records(kernel: Callable[..., Any]) -> Sequence[float]:
    """Return the same of the other kernel."""
    angles, tables, _ = _example()
    found = _sums_over_records(kernel, angles, tables, np.cos(np.arange(14.0)).reshape(2, 7), 5)
    return [float(part) for value in found.ravel() for part in (value.real, value.imag)]
