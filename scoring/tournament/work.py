"""The units of work of a tournament: run a hider, run a seeker, score a hider's utility.

Each is a function of a `Context` and of names and digests alone, so that any worker of any
`concurrent.futures.Executor` can do it. Work whose result is in the store is not done again.
"""

import functools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scoring.contract import Role
from scoring.data.datasets import DataSet
from scoring.report.result import plain_json, versions
from scoring.round import Division, Round, divide_by_key
from scoring.sandbox import Outcome, ProcessSandbox, Sandbox
from scoring.store import Store, StoredResult, digest_arrays, key
from scoring.strangers import Failed, HostError, Reason, untrusted
from scoring.tournament.intake import Entrant
from scoring.tournament.secret import fingerprint, organiser_key
from scoring.tournament.settings import Context
from scoring.utility.challenge import ConstantScores, begun_anew, constant_scores, judge, mean_scores
from scoring.utility.of_round import kept_facts, yardstick
from utils.data_preprocess import preprocess_imputed
from utils.errors import UserError
from utils.files import write_text
from utils.metric_utils import UtilityScores, utility_scores
from utils.text import printable

FORMAT = 3  # of what is stored. With another number everything is computed anew.
_TRAINING = threading.Lock()  # one utility training a worker, since it uses all cores by itself


@dataclass(frozen=True)
class FinishedRun:
    """How a run of a submission ended.

    Attributes
    ----------
    key : str
        Key of its result in the store. Empty if there is none.
    status : str
        "ok", or what went wrong (`scoring.sandbox.Status`).
    reason : str
        What went wrong, as the leaderboard says it.
    generated : str
        Digest of the data that a hider generated.
    """

    key: str
    status: str
    reason: str
    generated: str = ""

    @classmethod
    def of(cls, key: str, result: StoredResult) -> "FinishedRun":
        """Read it from what is stored."""
        facts = result.facts
        return cls(key, facts["status"], facts["reason"], facts.get("generated", ""))


# --- the round ---


def store_data(context: Context, data_set: DataSet) -> None:
    """Put the data into the store, for the workers."""
    if context.store.has("data", context.data):
        return
    named = {"name": data_set.name, "sha256": data_set.sha256, "feature_names": data_set.feature_names}
    facts = {"data": named, "warnings": data_set.warnings}
    arrays = {"data": data_set.data, "padding_mask": data_set.padding_mask}
    if data_set.patients is not None:
        arrays["patients"] = data_set.patients
    context.store.put("data", context.data, StoredResult(facts, arrays))


def load_round(context: Context, hider: str) -> Round:
    """Return the round that a hider and its seekers play: each hider has a split of its own.

    What a seeker learns of one hider's members, from a weak hider or from what an earlier run left in some cache, tells
    nothing of another hider's. Split, order and seeds come from the organiser's key, and no player is handed them.

    Parameters
    ----------
    context : Context
    hider : str
        The hider's `Entrant.identity`.
    """
    return _round(context.output / "store", context.data, context.key, hider, context.train_frac)


@functools.lru_cache(maxsize=1)
def _round(store: Path, data: str, key_file: Path, hider: str, train_frac: float) -> Round:
    stays = _stored_data(store, data)
    return Round.of(stays, divide_by_key(stays, organiser_key(key_file), hider, train_frac))


def split(context: Context, data_set: DataSet, hider: str) -> Division:
    """Return the split of a hider: who is a member, and in which order its seekers see the stays."""
    return divide_by_key(data_set, organiser_key(context.key), hider, context.train_frac)


def split_name(context: Context, hider: str) -> str:
    """Name a hider's split, for the keys of what is stored."""
    return fingerprint(organiser_key(context.key), f"{hider}\0{context.train_frac!r}")


@functools.lru_cache(maxsize=1)
def _stored_data(store: Path, data: str) -> DataSet:
    stored = Store(store).get("data", data)
    if stored is None:
        raise UserError(f"the data is not in {store}. Workers must share the tournament's folder.")
    facts, arrays = stored.facts["data"], stored.arrays
    return DataSet(
        arrays["data"],
        arrays["padding_mask"].astype(bool),
        facts["feature_names"],
        facts["name"],
        facts["sha256"],
        stored.facts["warnings"],
        arrays.get("patients"),
    )


# --- running a submission ---


@functools.lru_cache(maxsize=1)
def _sandbox(kind: Literal["docker", "process"], python: str | None, images: tuple[str, ...]) -> Sandbox:
    if kind == "process":
        return ProcessSandbox(python or sys.executable)
    from scoring.sandbox.container import DockerSandbox  # slow to import

    return DockerSandbox(allowed=images)


def hide(context: Context, hider: Entrant) -> FinishedRun:
    """Run a hider on the members."""

    def input_dict() -> dict[str, Any]:
        return load_round(context, hider.identity).hider_input()

    def result(outputs: Mapping[str, Any]) -> StoredResult:
        if outputs.get("rescore"):
            earlier = _latest(context, hider.identity)
            if earlier is None:
                raise Failed(Reason.NO_EARLIER)
            return earlier
        mask = outputs["padding_mask"]
        arrays = {"generated_data": outputs["generated_data"]} | ({} if mask is None else {"padding_mask": mask})
        return StoredResult({"generated": digest_arrays(outputs["generated_data"], mask)}, arrays)

    # Its identity too: whoever sends in a hider that only says "rescore" gets no other's data.
    more = {"identity": hider.identity, "split": split_name(context, hider.identity)}
    return _run(context, "hider", hider, more, input_dict, result)


def seek(context: Context, seeker: Entrant, hider: Entrant, hider_run: FinishedRun) -> FinishedRun:
    """Run a seeker on what a hider generated."""

    def input_dict() -> dict[str, Any]:
        return load_round(context, hider.identity).seeker_input(*generated_data(context, hider_run))

    def result(outputs: Mapping[str, Any]) -> StoredResult:
        scores = outputs["scores"]
        return StoredResult({}, {"labels": outputs["labels"]} | ({} if scores is None else {"scores": scores}))

    more = {"generated": hider_run.generated, "split": split_name(context, hider.identity)}
    return _run(context, "seeker", seeker, more, input_dict, result)


def _run(
    context: Context,
    role: Role,
    entrant: Entrant,
    more: Mapping[str, Any],
    input_dict: Callable[[], dict[str, Any]],
    result: Callable[[Mapping[str, Any]], StoredResult],
) -> FinishedRun:
    """Run a submission, unless its result is stored. A run that failed under other limits than these is tried again.

    `more` holds what its result depends on besides the submission and the round, `input_dict` makes its input, and
    `result` turns its outputs into what is stored.
    """
    depends_on = {
        "format": FORMAT,
        "role": role,
        "code": entrant.digest,
        "image": entrant.image if context.sandbox == "docker" else None,
        "sandbox": context.sandbox,
        "python": context.python,
        "gpus": context.limits.gpus,
        "data": context.data,
        **({"setting": entrant.setting} if entrant.setting else {}),
        **more,
    }
    allowed = {"limits": asdict(context.limits), "images": sorted(context.images)}
    success_key, failure_key = key(depends_on), key(depends_on | allowed)
    for known in (success_key,) if context.retry else (success_key, failure_key):
        stored = context.store.get(role, known)
        if stored is not None:
            return FinishedRun.of(known, stored)
    given = input_dict()
    seed = given.pop("seed")
    sandbox = _sandbox(context.sandbox, context.python, context.images)
    try:
        outcome = sandbox.run(
            context.output / "submissions" / entrant.digest,
            role,
            given,
            seed,
            context.limits,
            parameters=entrant.setting,
            image=entrant.image,
        )
    except HostError as error:  # nothing is stored: the next start tries again, and the others go on
        print(f"warning: a run of {entrant.name} did not take place: {error}", file=sys.stderr)
        return FinishedRun("", "host", Reason.HOST)
    except UserError:  # the sandbox itself cannot work
        raise
    except Exception as error:  # whatever a stranger made a library of ours raise
        outcome = Outcome("failed", Reason.NO_ANSWER, detail=printable(f"{type(error).__name__}: {error}", 500))
    facts = {
        "status": outcome.status,
        "reason": outcome.reason,
        "detail": outcome.detail,
        "submitter_log": outcome.submitter_log,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "seconds": round(outcome.seconds, 3),
    }
    stored = StoredResult(facts)
    if outcome.status == "ok":
        try:
            made = result(outcome.outputs)
            stored = StoredResult(facts | made.facts, made.arrays)
        except Failed as failed:
            stored = StoredResult(facts | {"status": "invalid_output", "reason": failed.reason})
    succeeded = stored.facts["status"] == "ok"
    result_key = success_key if succeeded else failure_key
    context.store.put(role, result_key, stored)
    if role == "hider" and succeeded:
        write_text(_latest_path(context, entrant.identity), result_key)
    return FinishedRun.of(result_key, stored)


def _latest_path(context: Context, identity: str) -> Path:
    inputs = {"identity": identity, "data": context.data, "split": split_name(context, identity)}
    return context.output / "store" / "latest" / key(inputs)


def _latest(context: Context, identity: str) -> StoredResult | None:
    """Return the last data that this hider made from these stays."""
    path = _latest_path(context, identity)
    stored = context.store.get("hider", path.read_text(encoding="utf-8")) if path.is_file() else None
    return stored and StoredResult({"generated": stored.facts["generated"]}, stored.arrays)


def generated_data(context: Context, hider_run: FinishedRun) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a hider's generated data [N, T, F] and its padding mask, or None."""
    arrays = stored_result(context, "hider", hider_run.key).arrays
    return arrays["generated_data"], arrays.get("padding_mask")


def stored_result(context: Context, kind: str, result_key: str) -> StoredResult:
    """Return a result that was stored before.

    Raises
    ------
    UserError
        If it is gone.
    """
    stored = context.store.get(kind, result_key)
    if stored is None:
        raise UserError(f"a result is gone from {context.store.root}. Start the tournament again.")
    return stored


# --- utility ---


def score_kept(context: Context, hider: Entrant, hider_run: FinishedRun) -> "dict[str, Any] | FinishedRun":
    """Measure the kept utility of a hider's data.

    Returns
    -------
    dict or FinishedRun
        `utility.kept` of report.json, or how the hider failed if its data cannot be scored.
    """
    depends_on = {
        "format": FORMAT,
        "kept": hider_run.generated,
        "data": context.data,
        "split": split_name(context, hider.identity),
        "versions": versions(),
    }
    kept_key = key(depends_on)
    stored = context.store.get("kept", kept_key)
    if stored is None:
        generated = generated_data(context, hider_run)
        with _TRAINING:
            round_ = load_round(context, hider.identity)
            ruler = yardstick(round_)
            try:
                with untrusted(Reason.SCORING):
                    facts = kept_facts(round_, *generated, ruler)
            except Failed as failed:
                print(f"warning: the data of {hider.name} cannot be scored: {failed.detail}", file=sys.stderr)
                return FinishedRun("", "invalid_output", failed.reason)
        stored = StoredResult(plain_json(facts))
        context.store.put("kept", kept_key, stored)
    return dict(stored.facts)


def score_utility(context: Context, hider: Entrant, hider_run: FinishedRun | None) -> "str | FinishedRun":
    """Train utility predictors on a hider's data, or on its members if it is None, and score them.

    Returns
    -------
    str or FinishedRun
        Key of the scores in the store, or how the hider failed if its data cannot be scored.
    """
    depends_on = {
        "format": FORMAT,
        "trained_on": hider_run.generated if hider_run else "members",
        "data": context.data,
        "split": split_name(context, hider.identity),
        "features": context.features,
        "utility_seeds": context.utility_seeds,
        "skip_osa": context.skip_osa,
        "versions": versions(),
    }
    scores_key = key(depends_on)
    with _TRAINING:
        if not context.store.has("utility", scores_key):
            round_ = load_round(context, hider.identity)
            test = round_.imputed_others()
            if hider_run is None:
                facts = _utility_facts(context, round_.imputed_members(), test, anew=True)
            else:
                generated = generated_data(context, hider_run)
                try:
                    with untrusted(Reason.SCORING):
                        facts = _utility_facts(context, preprocess_imputed(*generated), test)
                except Failed as failed:
                    print(f"warning: the data of {hider.name} cannot be scored: {failed.detail}", file=sys.stderr)
                    return FinishedRun("", "invalid_output", failed.reason)
            context.store.put("utility", scores_key, StoredResult(facts))
    return scores_key


def _utility_facts(context: Context, train: np.ndarray, test: np.ndarray, anew: bool = False) -> dict[str, Any]:
    scores = utility_scores(
        {"it": train},
        test,
        context.features,
        context.utility_seeds,
        one_step_ahead=not context.skip_osa,
        feature_prediction=bool(context.features),
    )["it"]
    constant = constant_scores(train, test)
    if anew:
        pairs = zip(scores, context.utility_seeds, strict=True)
        scores = [begun_anew(train, test, score, constant, seed) for score, seed in pairs]
    return {"scores": [s.to_json() for s in scores]} | constant.to_json()


def judge_utility(context: Context, original_key: str, generated_key: str, names: Sequence[str]) -> dict[str, Any]:
    """Judge a hider's utility by the means of its scores over the seeds."""
    original, generated = (
        stored_result(context, "utility", scores_key) for scores_key in (original_key, generated_key)
    )
    before, after = (
        mean_scores([UtilityScores.from_json(scores) for scores in stored.facts["scores"]])
        for stored in (original, generated)
    )
    constant = ConstantScores.from_json(original.facts)
    return plain_json(judge(before, after, constant, names, context.auroc_threshold, context.rmse_threshold))
