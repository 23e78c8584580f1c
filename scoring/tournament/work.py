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
from scoring.files import write_text
from scoring.report.result import plain_json, versions
from scoring.round import Round, divide_as_2020
from scoring.sandbox import ProcessSandbox, Sandbox
from scoring.store import Store, StoredResult, digest_arrays, key
from scoring.tournament.intake import Entrant
from scoring.tournament.settings import Context
from scoring.utility.challenge import ConstantScores, constant_scores, judge, mean_scores
from utils.data_preprocess import preprocess_imputed
from utils.errors import UserError
from utils.metric_utils import UtilityScores, utility_scores

FORMAT = 2  # of what is stored. With another number everything is computed anew.
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


def load_round(context: Context) -> Round:
    """Return the round that the tournament is played on. A worker loads it once."""
    return _stored_round(context.output / "store", context.data, context.seed, context.train_frac)


@functools.lru_cache(maxsize=1)
def _stored_round(store: Path, data: str, seed: int, train_frac: float) -> Round:
    stored = Store(store).get("data", data)
    if stored is None:
        raise UserError(f"the data is not in {store}. Workers must share the tournament's folder.")
    facts, arrays = stored.facts["data"], stored.arrays
    stays = DataSet(
        arrays["data"],
        arrays["padding_mask"].astype(bool),
        facts["feature_names"],
        facts["name"],
        facts["sha256"],
        stored.facts["warnings"],
        arrays.get("patients"),
    )
    return Round.of(stays, divide_as_2020(stays, seed, train_frac))


# --- running a submission ---


@functools.lru_cache(maxsize=1)
def _sandbox(kind: Literal["docker", "process"], python: str | None) -> Sandbox:
    if kind == "process":
        return ProcessSandbox(python or sys.executable)
    from scoring.sandbox.container import DockerSandbox  # slow to import

    return DockerSandbox()


def hide(context: Context, hider: Entrant) -> FinishedRun:
    """Run a hider on the members."""

    def input_dict() -> dict[str, Any]:
        return load_round(context).hider_input()

    def result(outputs: Mapping[str, Any]) -> StoredResult:
        if outputs.get("rescore"):
            earlier = _latest(context, hider.name)
            if earlier is None:
                raise UserError("asks for its earlier data to be rescored, but there is none of that name here")
            return earlier
        mask = outputs["padding_mask"]
        arrays = {"generated_data": outputs["generated_data"]} | ({} if mask is None else {"padding_mask": mask})
        return StoredResult({"generated": digest_arrays(outputs["generated_data"], mask)}, arrays)

    return _run(context, "hider", hider, {}, input_dict, result)


def seek(context: Context, seeker: Entrant, hider_run: FinishedRun) -> FinishedRun:
    """Run a seeker on what a hider generated."""

    def input_dict() -> dict[str, Any]:
        return load_round(context).seeker_input(*generated_data(context, hider_run))

    def result(outputs: Mapping[str, Any]) -> StoredResult:
        scores = outputs["scores"]
        return StoredResult({}, {"labels": outputs["labels"]} | ({} if scores is None else {"scores": scores}))

    return _run(context, "seeker", seeker, {"generated": hider_run.generated}, input_dict, result)


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
        "seed": context.seed,
        "train_frac": context.train_frac,
        **({"setting": entrant.setting} if entrant.setting else {}),
        **more,
    }
    success_key, failure_key = key(depends_on), key(depends_on | {"limits": asdict(context.limits)})
    for known in (success_key,) if context.retry else (success_key, failure_key):
        stored = context.store.get(role, known)
        if stored is not None:
            return FinishedRun.of(known, stored)
    given = input_dict()
    seed = given.pop("seed")
    outcome = _sandbox(context.sandbox, context.python).run(
        context.output / "submissions" / entrant.digest,
        role,
        given,
        seed,
        context.limits,
        parameters=entrant.setting,
        image=entrant.image,
    )
    facts = {
        "status": outcome.status,
        "reason": outcome.reason,
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
        except UserError as error:
            stored = StoredResult(facts | {"status": "invalid_output", "reason": str(error)})
    succeeded = stored.facts["status"] == "ok"
    result_key = success_key if succeeded else failure_key
    context.store.put(role, result_key, stored)
    if role == "hider" and succeeded:
        write_text(_latest_path(context, entrant.name), result_key)
    return FinishedRun.of(result_key, stored)


def _latest_path(context: Context, name: str) -> Path:
    inputs = {"name": name, "data": context.data, "seed": context.seed, "train_frac": context.train_frac}
    return context.output / "store" / "latest" / key(inputs)


def _latest(context: Context, name: str) -> StoredResult | None:
    """Return the last data that a hider of that name made from these stays."""
    path = _latest_path(context, name)
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


def score_utility(context: Context, hider_run: FinishedRun | None) -> str:
    """Train utility predictors on a hider's data, or on the members if it is None, and score them.

    Returns
    -------
    str
        Key of the scores in the store.
    """
    depends_on = {
        "format": FORMAT,
        "trained_on": hider_run.generated if hider_run else "members",
        "data": context.data,
        "seed": context.seed,
        "train_frac": context.train_frac,
        "features": context.features,
        "utility_seeds": context.utility_seeds,
        "skip_osa": context.skip_osa,
        "versions": versions(),
    }
    scores_key = key(depends_on)
    with _TRAINING:
        if not context.store.has("utility", scores_key):
            round_ = load_round(context)
            train = (
                round_.imputed_members()
                if hider_run is None
                else preprocess_imputed(*generated_data(context, hider_run))
            )
            test = round_.imputed_others()
            scores = utility_scores(
                {"it": train},
                test,
                context.features,
                context.utility_seeds,
                one_step_ahead=not context.skip_osa,
                feature_prediction=bool(context.features),
            )["it"]
            facts = {"scores": [s.to_json() for s in scores]} | constant_scores(train, test).to_json()
            context.store.put("utility", scores_key, StoredResult(facts))
    return scores_key


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
