"""Sums over patients with exact discrete Gaussian noise, and the account of what they cost.

Every look at the patients' data goes through `Ledger`. A patient gives one vector, cut to a length that the ledger
knows. The vectors are rounded to a grid of integers, added up as integers, and get discrete Gaussian noise of standard
deviation SIGMA = 2**24 grid steps (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy",
NeurIPS 2020, algorithms 1 to 3). The sampler works on integers and on random bits only, so no property of floating
point enters the proof.

Why the account of the continuous Gaussian holds. Rounding a sum with continuous Gaussian noise to the grid is
post-processing of the Gaussian mechanism. The discrete Gaussian differs from that by a total variation of at most
0.04 / SIGMA**2 a number: the midpoint rule errs by at most (1/24) max |phi''| in a cell, and these maxima add up over
all cells to at most the integrals of |phi''| and of |phi'''|, that is 0.97 / SIGMA**2 + 1.6 / SIGMA**3. A mechanism
within a total variation of eta of an (epsilon, delta)-private one is (epsilon, delta + (1 + exp(epsilon)) eta)-private.
`strength` takes that from delta before it asks for the noise. Several sums, each asked for after seeing the former,
compose as Gaussian differential privacy does: the squares of their mu add up (Dong, Roth and Su, "Gaussian
Differential Privacy", JRSS B 2022, corollary 3.3).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian

SIGMA_BITS = 24
SIGMA = 1 << SIGMA_BITS  # standard deviation of the noise, in grid steps
_GAMMA_BITS = 2 * SIGMA_BITS + 1  # (|y| - SIGMA)**2 / (2 SIGMA**2) is an integer over 2**_GAMMA_BITS
_FURTHEST = 128  # more than this many SIGMA away is refused. The chance to get there is below exp(-8000)

Bits = Callable[[int], np.ndarray]


def secret_bits(count: int) -> np.ndarray:
    """Return `count` random 64-bit words from the operating system's generator."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def seeded_bits(seed: int) -> Bits:
    """Return a source of words that anybody who knows `seed` can repeat: for tests, never for a release."""
    rng = np.random.default_rng(seed)
    return lambda count: rng.integers(0, 2**64, size=count, dtype=np.uint64)


def discrete_gaussian(count: int, bits: Bits) -> np.ndarray:
    """Draw integers with probability proportional to exp(-x**2 / (2 SIGMA**2)), exactly.

    Parameters
    ----------
    count : int
    bits : callable
        Gives random 64-bit words.

    Returns
    -------
    ndarray of int64, shape [count]
    """
    drawn: list[np.ndarray] = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing > 0:
        y = _discrete_laplace(2 * missing + 64, bits)
        y = y[np.abs(y) < _FURTHEST * SIGMA]
        y = y[_happens_exp((np.abs(y) - SIGMA) ** 2, bits)]
        drawn.append(y[:missing])
        missing -= drawn[-1].size
    return np.concatenate(drawn)


def _discrete_laplace(count: int, bits: Bits) -> np.ndarray:
    """Draw about 0.6 * count integers with probability proportional to exp(-|x| / SIGMA)."""
    low = (bits(count) >> np.uint64(64 - SIGMA_BITS)).astype(np.int64)
    low = low[_happens_exp(low << (_GAMMA_BITS - SIGMA_BITS), bits)]
    high = np.zeros(low.size, dtype=np.int64)
    going = np.arange(low.size)
    one = np.int64(1) << _GAMMA_BITS
    while going.size:
        going = going[_happens_exp(np.full(going.size, one), bits)]
        high[going] += 1
    size = low + (high << SIGMA_BITS)
    negative = (bits(size.size) >> np.uint64(63)).astype(bool)
    kept = ~(negative & (size == 0))
    return np.where(negative, -size, size)[kept]


def _happens_exp(gamma: np.ndarray, bits: Bits) -> np.ndarray:
    """Return True with probability exp(-gamma / 2**_GAMMA_BITS), for integers gamma of at least 0."""
    whole, rest = gamma >> _GAMMA_BITS, gamma & ((np.int64(1) << _GAMMA_BITS) - 1)
    result = _happens_exp_small(rest, bits)
    left = np.where(result, whole, 0)
    going = np.flatnonzero(left)
    one = np.int64(1) << _GAMMA_BITS
    while going.size:
        stays = _happens_exp_small(np.full(going.size, one), bits)
        result[going[~stays]] = False
        left[going] -= 1
        going = going[stays & (left[going] > 0)]
    return result


def _happens_exp_small(gamma: np.ndarray, bits: Bits) -> np.ndarray:
    """Return True with probability exp(-gamma / 2**_GAMMA_BITS), for gamma from 0 to 2**_GAMMA_BITS."""
    odd = np.ones(gamma.size, dtype=bool)
    going = np.arange(gamma.size)
    k = 1
    while going.size:
        below = (bits(going.size) >> np.uint64(64 - _GAMMA_BITS)).astype(np.int64) < gamma[going]
        if k > 1:
            below &= _one_in(k, going.size, bits)
        going = going[below]
        odd[going] = ~odd[going]
        k += 1
    return odd


def _one_in(k: int, count: int, bits: Bits) -> np.ndarray:
    """Return True with probability 1 / k, exactly: words above the largest multiple of k are drawn again."""
    limit = np.uint64((1 << 64) // k * k - 1)
    words = bits(count).copy()
    again = np.flatnonzero(words > limit)
    while again.size:
        words[again] = bits(again.size)
        again = again[words[again] > limit]
    return words % np.uint64(k) == 0


def strength(epsilon: float, delta: float, numbers: int) -> float:
    """Return the largest mu for which mu-Gaussian differential privacy is (epsilon, delta)-differential privacy.

    What the discrete noise of `numbers` released numbers differs from the continuous one is paid for out of delta.

    Raises
    ------
    ValueError
        Where epsilon is so large that this leaves less than half of delta.
    """
    eta = 0.04 * numbers / SIGMA**2
    left = delta - (1 + np.exp(min(epsilon, 700.0))) * eta
    if left < delta / 2:
        most = np.log(delta / (2 * eta))
        raise ValueError(f"epsilon {epsilon:g} is too large for delta {delta:g}: choose at most {most:.1f}")
    return 1.0 / float(get_sigma_gaussian(epsilon, left))


def epsilon_if_replaced(mu: float, delta: float) -> float:
    """Return the epsilon between data sets in which one patient is another person, not absent: twice the strength."""
    return float(get_epsilon_gaussian(1 / (2 * mu), delta))


@dataclass
class Ledger:
    """Adds up patients' vectors with noise, and keeps the account.

    Attributes
    ----------
    mu : float
        Strength that may be spent in all (Gaussian differential privacy).
    numbers : int
        Numbers that may be released in all.
    bits : callable or None
        Source of the noise's random words. None leaves the noise out: for audits, never for a release.
    entries : list of tuple
        Its account: name, numbers, mu.
    """

    mu: float
    numbers: int
    bits: Bits | None
    entries: list[tuple[str, int, float]] = field(default_factory=list)

    def total(self, name: str, vectors: np.ndarray, stays: np.ndarray, bound: float, mu: float) -> "Total":
        """Release the sum of the vectors over stays.

        Parameters
        ----------
        name : str
            For the account.
        vectors : ndarray, shape [N, D]
            A vector a stay, made from that stay alone and from what was released before. A longer one than `bound` is
            shortened to it.
        stays : ndarray of int, shape [N]
            How many stays the patient of each stay has: each counts for 1 / that many.
        bound : float
            Euclidean length that a patient adds at most. Public, or released before.
        mu : float
            What this costs: the noise's standard deviation is bound / mu on each number.

        Returns
        -------
        Total
        """
        self.entries.append((name, vectors.shape[1], mu))
        spent, numbers = sum(entry[2] ** 2 for entry in self.entries), sum(entry[1] for entry in self.entries)
        if spent > self.mu**2 * (1 + 1e-9) or numbers > self.numbers:
            raise RuntimeError("more was asked of the data than the budget pays for")
        limit = int(SIGMA * mu)  # of a patient's vector, in grid steps
        grid = limit / bound
        sums = np.zeros(vectors.shape[1], dtype=np.int64)
        for first in range(0, len(vectors), _BLOCK):
            block = np.nan_to_num(vectors[first : first + _BLOCK].astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
            share = stays[first : first + _BLOCK]
            with np.errstate(over="ignore"):
                lengths = np.sqrt(np.square(block).sum(axis=1))
            factor = grid / share / np.maximum(lengths / bound, 1.0)
            steps = np.trunc(block * factor[:, None]).astype(np.int64)  # toward 0: rounding makes no vector longer
            # The bound is held in integers too, so no rounding of the lines above can break it.
            steps[np.square(steps).sum(axis=1) > np.square(limit // share)] = 0
            sums += steps.sum(axis=0)
        if self.bits is not None:
            sums += discrete_gaussian(sums.size, self.bits)
        return Total(sums / grid, bound / mu)

    def total_clipped(self, name: str, vectors: np.ndarray, stays: np.ndarray, mu: float) -> "Total":
        """Release the sum of vectors of unknown length: a part of `mu` buys the length that most of them have.

        The histogram of the vectors' lengths over public classes is released first, and vectors are shortened to its
        quantile KEPT_WHOLE (Andrew et al., "Differentially Private Learning with Adaptive Clipping", NeurIPS 2021). A
        stay that adds nothing is in no class.
        """
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        with np.errstate(divide="ignore"):
            classes = np.clip(np.ceil(4 * np.log2(lengths)) + LENGTH_CLASSES // 2, 0, LENGTH_CLASSES - 1)
        one_hot = ((classes[:, None] == np.arange(LENGTH_CLASSES)) & (lengths[:, None] > 0)).astype(np.float32)
        counts = self.total(f"{name}: length", one_hot, stays, 1.0, mu * LENGTH_SHARE**0.5).values
        counts = np.maximum(counts - LENGTH_NOISE / (mu * LENGTH_SHARE**0.5), 0.0)
        kept = np.cumsum(counts) >= KEPT_WHOLE * counts.sum()
        bound = 2.0 ** ((int(np.argmax(kept)) - LENGTH_CLASSES // 2) / 4)
        return self.total(name, vectors, stays, bound, mu * (1 - LENGTH_SHARE) ** 0.5)


@dataclass(frozen=True)
class Total:
    """A released sum and the standard deviation of the noise on each of its numbers."""

    values: np.ndarray
    noise: float


KEPT_WHOLE = 0.75  # of the vectors, the share that is not shortened
LENGTH_SHARE = 0.03  # of a part's mu**2, for the histogram of lengths
LENGTH_NOISE = 1.0  # standard deviations of the noise that a class of lengths must exceed to count
LENGTH_CLASSES = 80  # of lengths: quarters of a power of 2, from 2**-10 to 2**10
_BLOCK = 2048  # stays turned into grid steps at once
