"""Known answers: leaks of known size planted in a release, and releases that nobody is behind.

An attack that finds nothing may be weak. So it is also run where the truth is known: on a release into which a leak
was planted, to learn which leak it would have found, and on null releases, to learn how often it calls a leak
where there is none. Stays are `[N, T, F]` with padding masks of the same shape, raw, NaN where missing. Nothing given
is changed. `rng` decides all that is drawn.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

Data: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]


def plant_copies(
    release: Data,
    release_mask: Mask,
    members: Data,
    members_mask: Mask,
    share: float,
    rng: np.random.Generator,
    noise: float = 0.0,
) -> tuple[Data, Mask, npt.NDArray[np.intp]]:
    """Replace generated stays by copies of members.

    Parameters
    ----------
    release, release_mask : ndarray, shape [N, T, F]
        Generated stays.
    members, members_mask : ndarray, shape [n, T, F]
    share : float
        Share of the members that are copied, in (0, 1]. At least one is.
    rng : numpy.random.Generator
        Draws whom to copy, what to replace, and the noise.
    noise : float
        Standard deviation of noise on every value, in the feature's own standard deviations. 0 copies verbatim.

    Returns
    -------
    release, release_mask : ndarray, shape [N, T, F]
        With the copies at random places.
    copied : ndarray of int, shape [k]
        Indices of the members that were copied.

    Raises
    ------
    ValueError
        If the shares or shapes do not fit, or there are more copies than generated stays.
    """
    if release.shape[1:] != members.shape[1:]:
        raise ValueError(f"copies of stays {members.shape[1:]} do not fit into a release of stays {release.shape[1:]}")
    if not 0 < share <= 1:
        raise ValueError(f"share must lie in (0, 1], got {share}")
    count = max(1, round(share * len(members)))
    if count > len(release):
        raise ValueError(f"{count} copies do not fit into a release of {len(release)} stays")
    copied = rng.choice(len(members), count, replace=False)
    places = rng.choice(len(release), count, replace=False)
    release, release_mask = release.copy(), release_mask.copy()
    release[places] = add_noise(members, members_mask, noise, rng, copied)
    release_mask[places] = members_mask[copied]
    return release, release_mask, copied


def plant_noisy_copies(
    release: Data,
    release_mask: Mask,
    members: Data,
    members_mask: Mask,
    share: float,
    rng: np.random.Generator,
    noise: float = 0.1,
) -> tuple[Data, Mask, npt.NDArray[np.intp]]:
    """Replace generated stays by near-copies of members. `plant_copies` with noise, by default that of add-noise."""
    return plant_copies(release, release_mask, members, members_mask, share, rng, noise)


def plant_means(
    release: Data, release_mask: Mask, members: Data, members_mask: Mask, numbers: int
) -> tuple[Data, Mask, int]:
    """Shift the release so that `numbers` means of the members are kept exactly.

    A number is the mean, over stays, of a stay's mean of one feature in one part of the stay. A stay that has no value
    there takes no part in the mean. All generated values there are shifted alike.

    Parameters
    ----------
    release, release_mask : ndarray, shape [N, T, F]
    members, members_mask : ndarray, shape [n, T, F]
    numbers : int
        How many means to keep, at least 1. Features are taken in order, feature 0 (time) is not. If that is not enough,
        stays are cut into more parts.

    Returns
    -------
    release, release_mask : ndarray, shape [N, T, F]
    kept : int
        How many means were kept: fewer than `numbers` if nobody has values there.

    Raises
    ------
    ValueError
        If there is no feature but time, or fewer than one number, or more than features x time points.
    """
    features, time_points = members.shape[2] - 1, members.shape[1]
    if features < 1 or not 1 <= numbers <= features * time_points:
        raise ValueError(f"numbers must lie between 1 and {max(features, 0) * time_points}, got {numbers}")
    parts = -(-numbers // features)
    release = release.copy()
    part, other_part = (_part_of_stay(mask, parts) for mask in (release_mask, members_mask))
    kept = 0
    for number in range(numbers):
        piece, feature = divmod(number, features)
        values, wanted = release[:, :, feature + 1], members[:, :, feature + 1]
        here, there = (part == piece) & np.isfinite(values), (other_part == piece) & np.isfinite(wanted)
        if here.any() and there.any():
            values[here] += _mean_of_stays(wanted, there) - _mean_of_stays(values, here)
            kept += 1
    return release, release_mask, kept


def exact_means_rate(numbers: int, members: int) -> tuple[float, float]:
    """Re-identification score that exact means allow the best linear attack.

    Returns
    -------
    (float, float)
        Phi(sqrt(p / n) / 2) for an attacker who knows the mean of the population (Sankararaman et al., Nature Genetics
        2009), and Phi(sqrt(2 p / n) / 2) for one who holds the members among as many others, as a seeker does: the
        mean of all of them is then known without error. Both hold for p far below n, and p independent numbers.
    """
    ratio = numbers / members
    return float(ndtr(np.sqrt(ratio) / 2)), float(ndtr(np.sqrt(2 * ratio) / 2))


def smoothed_release(
    stays: Data, padding_mask: Mask, count: int, rng: np.random.Generator, noise: float = 0.3
) -> tuple[Data, Mask]:
    """Draw stays with replacement and add noise: an overfitted generator of members, or a null release of others.

    Parameters
    ----------
    stays, padding_mask : ndarray, shape [n, T, F]
    count : int
        N, the number of stays to generate.
    rng : numpy.random.Generator
    noise : float
        Standard deviation, in the feature's own.

    Returns
    -------
    release, release_mask : ndarray, shape [N, T, F]
    """
    drawn = rng.integers(len(stays), size=count)
    return add_noise(stays, padding_mask, noise, rng, drawn), padding_mask[drawn]


def null_release(
    stays: Data, padding_mask: Mask, count: int, rng: np.random.Generator, noise: float = 0.3
) -> tuple[Data, Mask]:
    """Generate a release that tells nothing about membership.

    Parameters
    ----------
    stays, padding_mask : ndarray, shape [n, T, F]
        Stays of neither half, or, if there are none, all stays of both halves alike. Then the release leaks stays,
        but who is a member has no part in it.
    count, rng, noise
        As for `smoothed_release`.
    """
    return smoothed_release(stays, padding_mask, count, rng, noise)


def add_noise(
    stays: Data, padding_mask: Mask, noise: float, rng: np.random.Generator, chosen: npt.NDArray[np.intp] | None = None
) -> Data:
    """Return stays with Gaussian noise on every value that is not missing or padding. Times stay in order.

    Parameters
    ----------
    stays, padding_mask : ndarray, shape [n, T, F]
        The feature's standard deviation is taken over all of them.
    noise : float
        In standard deviations of each feature. 0 changes nothing.
    rng : numpy.random.Generator
    chosen : ndarray of int, shape [N], optional
        Which stays to return. All by default.
    """
    chosen = np.arange(len(stays)) if chosen is None else chosen
    noisy = np.array(stays[chosen], dtype=float)
    if noise == 0:
        return noisy
    for feature in range(stays.shape[2]):
        values = stays[:, :, feature][~padding_mask[:, :, feature] & np.isfinite(stays[:, :, feature])]
        if values.size:
            cells = np.isfinite(noisy[:, :, feature]) & ~padding_mask[chosen, :, feature]
            noisy[:, :, feature][cells] += noise * values.std() * rng.standard_normal(int(cells.sum()))
    times = np.where(padding_mask[chosen, :, 0], -np.inf, noisy[:, :, 0])
    times.sort(axis=1)  # padding is at the front, and stays there
    noisy[:, :, 0] = np.where(padding_mask[chosen, :, 0], noisy[:, :, 0], times)
    return noisy


def _part_of_stay(padding_mask: Mask, parts: int) -> npt.NDArray[np.intp]:
    """Return which part, 0 to `parts` - 1, of its stay each time point is in. -1 where padded. Shape [N, T]."""
    padded = padding_mask[:, :, 0]
    place = np.cumsum(~padded, axis=1) - 1
    length = np.maximum((~padded).sum(axis=1, keepdims=True), 1)
    return np.where(padded, -1, place * parts // length)


def _mean_of_stays(values: Data, here: Mask) -> float:
    """Mean over stays of the mean of a stay's values that are `here`."""
    count = here.sum(axis=1)
    sums = np.where(here, values, 0).sum(axis=1)
    return float((sums[count > 0] / count[count > 0]).mean())
