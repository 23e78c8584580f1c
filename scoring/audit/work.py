"""The pieces of an audit: each is a function of a `Context` and plain values, kept in a store once it is done.

Any worker of any `concurrent.futures.Executor` that shares the audit's folder can do a piece.
"""

import functools
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from scoring.audit import differences, power, risks
from scoring.audit.attackers import Attacker, attack
from scoring.audit.provenance import find_real_stays
from scoring.audit.tables import Tables
from scoring.report.result import plain_json
from scoring.round import Round
from scoring.store import Store, StoredResult, digest_arrays, key
from scoring.utility.of_round import kept_facts
from utils.errors import UserError

FORMAT = 1  # of the pieces: another number, and all are made anew
DATA = "data"
_PROVENANCE, _RISKS, _DIFFERENCES, _POWER = 1, 2, 3, 4  # uses of the audit's seed


@dataclass(frozen=True)
class Context:
    """What every piece is given; small, and the same on every machine.

    Attributes
    ----------
    output : Path
        The audit's folder, which all workers share.
    home : Path
        The folder in which the seekers are.
    data : str
        Key of the data's piece in the store.
    threads : int
        That a worker may use.
    """

    output: Path
    home: Path
    data: str
    threads: int = 1

    @property
    def store(self) -> Store:
        """Where the pieces are."""
        return Store(self.output / "store")


def store_data(output: Path, home: Path, tables: Tables, threads: int) -> Context:
    """Keep the three tables for the workers. `forget_data` takes them away."""
    round_ = tables.round
    arrays = {
        "data": round_.data,
        "padding_mask": round_.padding_mask,
        "members": round_.members,
        "others": round_.others,
        "order": round_.order,
        "generated": tables.generated,
        "generated_mask": tables.generated_mask,
        "first_stays": tables.first_stays,
    }
    facts = {
        "format": FORMAT,
        "feature_names": round_.feature_names,
        "hider_seed": round_.hider_seed,
        "seeker_seed": round_.seeker_seed,
        "name": round_.name,
        "sha256": round_.sha256,
    }
    place = key({**facts, "arrays": digest_arrays(*arrays.values())})
    context = Context(output.resolve(), home, place, threads)
    if not context.store.has(DATA, place):
        context.store.put(DATA, place, StoredResult(facts, arrays))
    return context


def forget_data(context: Context) -> None:
    """Remove the copy of the patients' data; what was found stays."""
    _loaded.cache_clear()
    context.store.path(DATA, context.data).unlink(missing_ok=True)


@dataclass(frozen=True)
class Loaded:
    """What a worker keeps in memory. The arrays cannot be changed: the next attack must see the same."""

    round: Round
    generated: np.ndarray
    generated_mask: np.ndarray
    first_stays: np.ndarray


@functools.lru_cache(maxsize=1)
def _loaded(store: Path, data: str) -> Loaded:
    piece = Store(store).get(DATA, data)
    if piece is None:
        raise UserError(f"the data is not in {store}; workers must share the audit's folder")
    arrays, facts = piece.arrays, piece.facts
    for array in arrays.values():
        array.setflags(write=False)
    round_ = Round(
        data=arrays["data"],
        padding_mask=arrays["padding_mask"],
        feature_names=facts["feature_names"],
        members=arrays["members"],
        others=arrays["others"],
        order=arrays["order"],
        hider_seed=facts["hider_seed"],
        seeker_seed=facts["seeker_seed"],
        name=facts["name"],
        sha256=facts["sha256"],
        warnings=[],
    )
    return Loaded(round_, arrays["generated"], arrays["generated_mask"], arrays["first_stays"])


def load(context: Context) -> Loaded:
    """Return the three tables."""
    return _loaded(context.output / "store", context.data)


def _done(context: Context, kind: str, inputs: Mapping[str, Any], make: Callable[[], StoredResult]) -> str:
    """Make a piece unless it is there; returns its key."""
    place = key({"format": FORMAT, "data": context.data, "kind": kind, **inputs})
    if not context.store.has(kind, place):
        began = time.perf_counter()
        with threadpool_limits(context.threads):
            piece = make()
        facts = plain_json(piece.facts | {"seconds": round(time.perf_counter() - began, 3)})
        context.store.put(kind, place, replace(piece, facts=facts))
    return place


def look_for_real_stays(context: Context) -> str:
    """Find real stays in the release."""

    def make() -> StoredResult:
        loaded = load(context)
        rng = np.random.default_rng([_PROVENANCE, loaded.round.seeker_seed])
        found = find_real_stays(loaded.round, loaded.generated, loaded.generated_mask, rng)
        return StoredResult(found.facts, {"kind": found.kind, "source": found.source})

    return _done(context, "provenance", {"code": code_digest("scoring/audit/provenance.py")}, make)


def play_attack(context: Context, attacker: Attacker) -> str:
    """Let one seeker attack the release."""

    def make() -> StoredResult:
        loaded = load(context)
        given = loaded.round.seeker_input(loaded.generated, loaded.generated_mask)
        answer = attack(attacker, given)
        return StoredResult({"parameters": answer.parameters}, {"labels": answer.labels, "scores": answer.scores})

    return _done(context, "attack", {"code": attacker.digest, "setting": attacker.setting}, make)


def measure_risks(context: Context) -> str:
    """Measure singling out, linkability and attribute inference."""

    def make() -> StoredResult:
        loaded = load(context)
        rng = np.random.default_rng([_RISKS, loaded.round.seeker_seed])
        return StoredResult(risks.measure(loaded.round, loaded.generated, loaded.generated_mask, rng))

    return _done(context, "risks", {"code": code_digest("scoring/audit/risks.py")}, make)


def measure_utility(context: Context) -> str:
    """Measure what the release is good for."""

    def make() -> StoredResult:
        loaded = load(context)
        return StoredResult(kept_facts(loaded.round, loaded.generated, loaded.generated_mask))

    return _done(context, "utility", {"code": code_digest("scoring/utility/*.py")}, make)


def compare_sides(context: Context) -> str:
    """Ask whether members and others differ without any release."""

    def make() -> StoredResult:
        loaded = load(context)
        rng = np.random.default_rng([_DIFFERENCES, loaded.round.seeker_seed])
        return StoredResult(differences.members_against_others(loaded.round, loaded.first_stays, rng))

    return _done(context, "differences", {"code": code_digest("scoring/audit/differences.py")}, make)


def try_known_answer(context: Context, attackers: tuple[Attacker, ...], leak: power.Leak, trial: int) -> str:
    """Plant a leak of known size in this very release and see whether the attacks find it."""

    def make() -> StoredResult:
        loaded = load(context)
        rng = np.random.default_rng([_POWER, loaded.round.seeker_seed, trial])
        found = power.trial(loaded.round, loaded.generated, loaded.generated_mask, attackers, leak, rng)
        return StoredResult(found)

    inputs = {
        "attackers": sorted(f"{attacker.digest} {attacker.setting}" for attacker in attackers),
        "leak": [leak.kind, leak.size],
        "trial": trial,
        "code": code_digest("scoring/audit/*.py"),
    }
    return _done(context, "power", inputs, make)


@functools.cache
def code_digest(pattern: str) -> str:
    """Return a digest of our own source files, so that a change of the code makes a piece anew."""
    home = Path(__file__).resolve().parents[2]
    total = hashlib.sha256()
    for file in sorted(home.glob(pattern)):
        total.update(file.read_bytes())
    return total.hexdigest()
