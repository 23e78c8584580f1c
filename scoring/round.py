"""A round: the data, the split into members and others, the order and the seeds that matches are played on.

The split is made here and nowhere else. The hider's input, the seeker's input and the right answers all come from one
`Round`, so that a match, a tournament, a Codabench bundle and an audit cannot disagree about who is a member.
"""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoring.data.datasets import DataSet, digest
from utils.data_preprocess import PADDING_FILL, preprocess_imputed
from utils.data_utils import data_division
from utils.errors import UserError


@dataclass(frozen=True)
class Division:
    """Who is a member, in which order the players see the stays, and which seeds the players are handed.

    Attributes
    ----------
    members : ndarray of int, shape [n]
        Positions in the data set, in the order in which the hider sees these stays.
    others : ndarray of int, shape [m]
        Positions of all other stays.
    order : ndarray of int, shape [n + m]
        Position in the data set of the first, second, ... stay that a seeker sees.
    hider_seed, seeker_seed : int
        `seed` of the hider's and of the seeker's input.
    """

    members: np.ndarray
    others: np.ndarray
    order: np.ndarray
    hider_seed: int
    seeker_seed: int


def divide_as_2020(data_set: DataSet, seed: int, member_share: float) -> Division:
    """Divide a data set by a public seed, bit for bit as the 2020 challenge did.

    Whoever knows the seed and the order of the file knows the members. So the seekers' order and seed are drawn from a
    digest of the data: the organiser can repeat them, and a seeker of secret data cannot. If the data are public, use
    `divide_by_key`.

    Parameters
    ----------
    data_set : DataSet
        All stays of one patient fall on one side, if `patients` says whose they are.
    seed : int
        Seed of the split. The hider is handed it, as in 2020.
    member_share : float
        Share of the stays (of the patients, if they are known) that become members, between 0 and 1.

    Raises
    ------
    UserError
        If one side would be empty.
    """
    groups = _patients(data_set)
    _, (members, others) = data_division(range(len(groups)), seed, [member_share, 1 - member_share])
    digest_of_data = hashlib.sha256(f"shown to seekers {seed}".encode())
    digest_of_data.update(np.ascontiguousarray(data_set.data[:, -1]).data.cast("B"))
    rng = np.random.default_rng(int.from_bytes(digest_of_data.digest(), "big"))
    order = rng.permutation(len(data_set.data))
    return Division(
        *_both_sides(groups, members, others, member_share),
        order=order,
        hider_seed=seed,
        seeker_seed=int(rng.integers(2**31)),
    )


def divide_by_key(data_set: DataSet, key: bytes, purpose: str, member_share: float) -> Division:
    """Divide a data set by a secret key. Split, order and seeds cannot be computed without it.

    Parameters
    ----------
    data_set : DataSet
        As for `divide_as_2020`.
    key : bytes
        At least 32 random bytes.
    purpose : str
        What the split is for, such as a hider's name. Each purpose has a split, an order and seeds of its own, and one
        tells nothing about another.
    member_share : float
        As for `divide_as_2020`.

    Raises
    ------
    ValueError
        If the key is shorter than 32 bytes.
    UserError
        If one side would be empty.
    """
    if len(key) < 32:
        raise ValueError(f"the key of a split must have at least 32 bytes, not {len(key)}")
    split, shown, hider, seeker = (_keyed_generator(key, use, purpose) for use in ("split", "order", "hider", "seeker"))
    groups = _patients(data_set)
    drawn, count = split.permutation(len(groups)), int(len(groups) * member_share)
    return Division(
        *_both_sides(groups, drawn[:count], drawn[count:], member_share),
        order=shown.permutation(len(data_set.data)),
        hider_seed=int(hider.integers(2**31)),
        seeker_seed=int(seeker.integers(2**31)),
    )


def _keyed_generator(key: bytes, use: str, purpose: str) -> np.random.Generator:
    """Make a generator that is independent for each use and purpose (BLAKE2b with a key is a MAC)."""
    drawn = hashlib.blake2b(f"{use}\0{purpose}".encode(), key=key[:64], digest_size=32, person=b"hide-and-seek")
    return np.random.default_rng(int.from_bytes(drawn.digest(), "big"))


def _patients(data_set: DataSet) -> list[np.ndarray]:
    """Group the positions of the stays by patient, in the order in which the patients first appear."""
    positions = np.arange(len(data_set.data))
    if data_set.patients is None:
        return list(positions[:, None])
    _, first, whose = np.unique(data_set.patients, return_index=True, return_inverse=True)
    by_patient = np.split(np.argsort(whose, kind="stable"), np.cumsum(np.bincount(whose))[:-1])
    return [by_patient[patient] for patient in np.argsort(first)]


def _both_sides(
    groups: Sequence[np.ndarray], members: np.ndarray, others: np.ndarray, member_share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Turn patients into stays."""
    if not len(members) or not len(others):
        raise UserError(
            f"--train_frac {member_share:g} leaves no stay on one side of {len(groups)}; "
            "choose a share nearer 0.5, or bring more patients"
        )
    return np.concatenate([groups[i] for i in members]), np.concatenate([groups[i] for i in others])


@dataclass(frozen=True)
class Round:
    """The stays of both sides, in the order in which seekers see them.

    Make one with `Round.of` from a data set and its division, or with `Round.of_tables` from two tables.

    Attributes
    ----------
    data : ndarray of float64, shape [N, T, F]
        Raw stays: members and others mixed, padded at the front with -1. Feature 0 is time and NaN is missing.
    padding_mask : ndarray of bool, shape [N, T, F]
        True means padding.
    feature_names : list of str, length F
    members, others : ndarray of int
        Indices into `data`. A hider's input has the members in this order.
    order : ndarray of int, shape [N]
        `data[i]` is stay `order[i]` of the data set.
    hider_seed, seeker_seed : int
        What the players are handed.
    name, sha256 : str
        The data set's file name, and the digest of its arrays.
    warnings : list of str
        What a reader of the results should know about the data.
    patients : ndarray of int or str, shape [N], or None
        Whose stay it is. If it is None, each stay is of a patient of its own.
    """

    data: np.ndarray
    padding_mask: np.ndarray
    feature_names: list[str]
    members: np.ndarray
    others: np.ndarray
    order: np.ndarray
    hider_seed: int
    seeker_seed: int
    name: str
    sha256: str
    warnings: list[str]
    patients: np.ndarray | None = None

    @classmethod
    def of(cls, data_set: DataSet, division: Division) -> "Round":
        """Put a data set's stays into the order of a division."""
        order = division.order
        index = np.argsort(order)  # of each stay of the data set
        return cls(
            data=data_set.data[order],
            padding_mask=data_set.padding_mask[order],
            feature_names=data_set.feature_names,
            members=index[division.members],
            others=index[division.others],
            order=order,
            hider_seed=division.hider_seed,
            seeker_seed=division.seeker_seed,
            name=data_set.name,
            sha256=data_set.sha256,
            warnings=list(data_set.warnings),
            patients=None if data_set.patients is None else np.asarray(data_set.patients)[order],
        )

    @classmethod
    def of_tables(cls, members: DataSet, others: DataSet, seed: int) -> "Round":
        """Make a round from two tables, if the members of a release are known already.

        Parameters
        ----------
        members, others : DataSet
            Of the same features. The stays may have another number of time points on either side.
        seed : int
            Seed of the order and of the seeds that the players are handed.

        Raises
        ------
        UserError
            If the features are not the same.
        """
        if members.feature_names != others.feature_names:
            raise UserError(f"{members.name} and {others.name} do not have the same features in the same order")
        time_points = max(members.data.shape[1], others.data.shape[1])
        halves = [padded_to(half.data, half.padding_mask, time_points) for half in (members, others)]
        data, mask = (np.concatenate(part) for part in zip(*halves, strict=True))
        rng = np.random.default_rng(seed)
        known = np.arange(len(members.data))
        division = Division(
            members=known,
            others=np.arange(len(known), len(data)),
            order=rng.permutation(len(data)),
            hider_seed=int(rng.integers(2**31)),
            seeker_seed=int(rng.integers(2**31)),
        )
        names = members.feature_names
        warnings = [f"{half.name}: {warning}" for half in (members, others) for warning in half.warnings]
        patients = None
        if members.patients is not None and others.patients is not None:
            patients = np.concatenate([np.asarray(half.patients, dtype=str) for half in (members, others)])
        sha256 = digest(data, names, patients)
        both = DataSet(data, mask, names, f"{members.name} and {others.name}", sha256, warnings, patients)
        return cls.of(both, division)

    def hider_input(self) -> dict[str, Any]:
        """Return what the hider is given: the members (a copy), its seed, the features' names, and whose each stay is.

        The last two are not in the contract of 2020. `patients` is there only if some patient may have several stays,
        and holds numbers that mean nothing outside this input.
        """
        given: dict[str, Any] = {
            "data": self.data[self.members],
            "padding_mask": self.padding_mask[self.members],
            "seed": self.hider_seed,
            "feature_names": np.array(self.feature_names, dtype=str),
        }
        if self.patients is not None:
            given["patients"] = np.unique(self.patients[self.members], return_inverse=True)[1]
        return given

    def seeker_input(self, generated: np.ndarray, generated_mask: np.ndarray | None) -> dict[str, Any]:
        """Return what the seeker is given. The arrays are the round's own: a seeker in this process can change them."""
        return {
            "generated_data": generated,
            "enlarged_data": self.data,
            "seed": self.seeker_seed,
            "generated_data_padding_mask": generated_mask,
            "enlarged_data_padding_mask": self.padding_mask,
            "feature_names": np.array(self.feature_names, dtype=str),
        }

    @property
    def hider_shape(self) -> tuple[int, int, int]:
        """Shape [n, T, F] of the members, and of what a hider generates."""
        _, time_points, features = self.data.shape
        return len(self.members), time_points, features

    @functools.cached_property
    def truth(self) -> np.ndarray:
        """The right answers: bool [N], True for members."""
        return np.isin(np.arange(len(self.data)), self.members)

    def in_file_order(self, labels: np.ndarray) -> np.ndarray:
        """Put one value for each stay of `data`, [N], into the order of the data set."""
        return labels[np.argsort(self.order)]

    def imputed_members(self) -> np.ndarray:
        """Return the members preprocessed and imputed, as utility models are trained on them."""
        return preprocess_imputed(self.data[self.members], self.padding_mask[self.members])

    def imputed_others(self) -> np.ndarray:
        """Return the others preprocessed and imputed, as utility models are tested on them."""
        return preprocess_imputed(self.data[self.others], self.padding_mask[self.others])

    @functools.cached_property
    def made_from(self) -> str:
        """Digest of the members: generated data is scored against the stays it was made from and no others."""
        total = hashlib.sha256()
        for stay in self.members:  # one at a time: no copy of the half
            total.update(self.data[stay].tobytes())
        return total.hexdigest()

    @functools.cached_property
    def _shares(self) -> tuple[float, float]:
        """Missing share of the cells that are not padding, and padded share of all cells."""
        padded, cells = int(self.padding_mask.sum()), self.data.size
        return int(np.isnan(self.data).sum()) / (cells - padded), padded / cells

    def facts(self) -> dict[str, Any]:
        """Return the `data` part of report.json."""
        missing, padded = self._shares
        return {
            "name": self.name,
            "sha256": self.sha256,
            "stays": len(self.data),
            "time_points": self.data.shape[1],
            "feature_names": self.feature_names,
            "members": len(self.members),
            "non_members": len(self.others),
            "missing_share": missing,
            "padded_share": padded,
        }


def padded_to(data: np.ndarray, padding_mask: np.ndarray, time_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengthen stays [N, T, F] and their mask to `time_points` with padding at the front."""
    missing = time_points - data.shape[1]
    if not missing:
        return data, padding_mask
    widths = ((0, 0), (missing, 0), (0, 0))
    return np.pad(data, widths, constant_values=PADDING_FILL), np.pad(padding_mask, widths, constant_values=True)
