"""Every hider against every seeker: each hider runs once, its utility is checked, each seeker plays each hider.

The work is cut into pieces (a hider's data, the scores of its utility, a seeker's answer, a match's report), each a
function of a `Context` and of names and digests alone, so that any worker of any `concurrent.futures.Executor` can do
it. What a piece finds in the store it does not do again.
"""

import functools
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scoring import match
from scoring.contract import Role
from scoring.data import datasets as data_sets
from scoring.files import write_text
from scoring.report.comparison import compare
from scoring.report.match_page import write_report
from scoring.report.result import match_result, plain_json, versions, write_result
from scoring.round import Round, divide_as_2020
from scoring.sandbox import Limits, ProcessSandbox, Sandbox, choose_sandbox
from scoring.store import Piece, Store, digest_arrays, key
from scoring.submissions.players import known_players
from scoring.submissions.submission import HOME, digest, take_in
from scoring.utility.challenge import constant_scores, draw_features, judge
from utils.data_preprocess import preprocess_imputed
from utils.errors import UserError
from utils.misc import tf115_found
from utils.progress import progress_bar

DATA_SEED = 12345  # these and the thresholds are the 2020 competition's
UTILITY_SEEDS = (12345, 42, 1, 123, 777)
TESTED_FEATURES = 10
FORMAT = 2  # of the pieces: another number, and all are made anew
_TRAINING = threading.Lock()  # one utility training a worker: it uses all cores by itself
_DRAWING = threading.Lock()  # matplotlib's settings are global


@dataclass(frozen=True)
class Settings:
    """What the organiser asked for; the fields are the command line's."""

    data_path: Path
    output_dir: Path
    max_seq_len: int = 100
    train_frac: float = 0.5
    hider_eval_threshold: float = 0.85
    feature_prediction_no: int | None = None  # 10, or all where there are fewer
    seed: int = DATA_SEED
    utility_seeds: int = len(UTILITY_SEEDS)
    debug_data: int = 0
    skip_fp: bool = False
    skip_osa: bool = False
    play_all: bool = False
    sandbox: Literal["docker", "process"] | None = None
    python: str | None = None
    retry: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 1 <= self.utility_seeds <= len(UTILITY_SEEDS):
            raise UserError(f"--utility_seeds must be 1 to {len(UTILITY_SEEDS)}, not {self.utility_seeds}")
        for name, value in (("seconds", self.limits.seconds), ("memory", self.limits.memory)):
            if not value > 0:
                raise UserError(f"the limit on {name} must be above 0")
        # The rest is a match's, and refused there.
        match.MatchSettings(
            home=HOME,
            data_path=self.data_path,
            output_dir=self.output_dir,
            max_seq_len=self.max_seq_len,
            train_frac=self.train_frac,
            hider_eval_threshold=self.hider_eval_threshold,
            feature_prediction_no=TESTED_FEATURES if self.feature_prediction_no is None else self.feature_prediction_no,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Entrant:
    """A submission that takes part, or one that was refused.

    Attributes
    ----------
    name : str
        As the leaderboard calls it; no two of a role share one.
    role : "hider", "seeker", or None where a refused submission did not show it.
    digest : str
        Of its files; "" where it was refused.
    image : str or None
    refused : str
        Why, in one line; "" where it takes part.
    """

    name: str
    role: Role | None
    digest: str = ""
    image: str | None = None
    refused: str = ""


@dataclass(frozen=True)
class Context:
    """What every piece of work is given; small, and the same on every machine.

    Attributes
    ----------
    output : Path
        The tournament's folder, which all workers share: `store/`, `submissions/`, `matches/`.
    data : str
        Key of the data's piece in the store.
    features : tuple of int
        The features predicted.
    utility_seeds : tuple of int
        Seeds of the utility models; empty where utility is not checked.
    sandbox : str
        "docker" or "process".
    """

    output: Path
    data: str
    seed: int
    train_frac: float
    features: tuple[int, ...]
    utility_seeds: tuple[int, ...]
    skip_osa: bool
    auroc_threshold: float
    rmse_threshold: float
    sandbox: Literal["docker", "process"]
    python: str | None
    limits: Limits
    retry: bool

    @property
    def store(self) -> Store:
        """Where the pieces are."""
        return Store(self.output / "store")


@dataclass(frozen=True)
class Done:
    """How a run of a submission ended: the key of its piece and how the leaderboard tells it."""

    key: str
    status: str
    reason: str
    generated: str = ""  # of a hider: the digest of its data


# ------------------------------------------------------------------------------------------------ the pieces of work


@functools.lru_cache(maxsize=1)
def _stored_round(store: Path, data: str, seed: int, train_frac: float) -> Round:
    """Load the data once a worker."""
    piece = Store(store).get("data", data)
    if piece is None:
        raise UserError(f"the data is not in {store}; workers must share the tournament's folder")
    facts, mask = piece.facts["data"], piece.arrays["padding_mask"].astype(bool)
    names, warnings = facts["feature_names"], piece.facts["warnings"]
    stays = data_sets.DataSet(
        piece.arrays["data"], mask, names, facts["name"], facts["sha256"], warnings, piece.arrays.get("patients")
    )
    return Round.of(stays, divide_as_2020(stays, seed, train_frac))


def load_round(context: Context) -> Round:
    """Return the round that the tournament is played on."""
    return _stored_round(context.output / "store", context.data, context.seed, context.train_frac)


@functools.lru_cache(maxsize=1)
def _sandbox(kind: Literal["docker", "process"], python: str | None) -> Sandbox:
    if kind == "process":
        return ProcessSandbox(python or sys.executable)
    from scoring.sandbox.container import DockerSandbox  # slow to import

    return DockerSandbox()


def hide(context: Context, hider: Entrant) -> Done:
    """Run a hider on the members."""

    def input_dict() -> dict[str, Any]:
        return load_round(context).hider_input()

    def kept(outputs: Mapping[str, Any]) -> Piece:
        if outputs.get("rescore"):
            earlier = _latest(context, hider.name)
            if earlier is None:
                raise UserError("asks for its earlier data to be rescored, but there is none of that name here")
            return earlier
        mask = outputs["padding_mask"]
        found = {"generated_data": outputs["generated_data"]} | ({} if mask is None else {"padding_mask": mask})
        return Piece({"generated": digest_arrays(outputs["generated_data"], mask)}, found)

    return _run(context, "hider", hider, {}, input_dict, kept)


def seek(context: Context, seeker: Entrant, hidden: Done) -> Done:
    """Run a seeker on what a hider made."""

    def input_dict() -> dict[str, Any]:
        return load_round(context).seeker_input(*hidden_data(context, hidden))

    def kept(outputs: Mapping[str, Any]) -> Piece:
        scores = outputs["scores"]
        return Piece({}, {"labels": outputs["labels"]} | ({} if scores is None else {"scores": scores}))

    return _run(context, "seeker", seeker, {"generated": hidden.generated}, input_dict, kept)


def _run(
    context: Context,
    role: Role,
    entrant: Entrant,
    more: Mapping[str, Any],
    input_dict: Callable[[], dict[str, Any]],
    kept: Callable[[Mapping[str, Any]], Piece],
) -> Done:
    """Run a submission unless its piece is there. What failed under other limits than these is tried again."""
    inputs = {
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
        **more,
    }
    good, bad = key(inputs), key(inputs | {"limits": asdict(context.limits)})
    store = context.store
    for place in (good,) if context.retry else (good, bad):
        piece = store.get(role, place)
        if piece is not None:
            return _told(place, piece)
    given = input_dict()
    handed_seed = given.pop("seed")
    outcome = _sandbox(context.sandbox, context.python).run(
        context.output / "submissions" / entrant.digest,
        role,
        given,
        handed_seed,
        context.limits,
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
    piece = Piece(facts)
    if outcome.status == "ok":
        try:
            made = kept(outcome.outputs)
            piece = Piece(facts | made.facts, made.arrays)
        except UserError as error:
            piece = Piece(facts | {"status": "invalid_output", "reason": str(error)})
    place = good if piece.facts["status"] == "ok" else bad
    store.put(role, place, piece)
    if role == "hider" and piece.facts["status"] == "ok":
        write_text(_latest_path(context, entrant.name), place)
    return _told(place, piece)


def _told(place: str, piece: Piece) -> Done:
    facts = piece.facts
    return Done(place, facts["status"], facts["reason"], facts.get("generated", ""))


def _latest_path(context: Context, name: str) -> Path:
    inputs = {"name": name, "data": context.data, "seed": context.seed, "train_frac": context.train_frac}
    return context.output / "store" / "latest" / key(inputs)


def _latest(context: Context, name: str) -> Piece | None:
    """Return the last data that a hider of that name made from these stays."""
    path = _latest_path(context, name)
    piece = context.store.get("hider", path.read_text(encoding="utf-8")) if path.is_file() else None
    return piece and Piece({"generated": piece.facts["generated"]}, piece.arrays)


def hidden_data(context: Context, hidden: Done) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a hider's generated data [N, T, F] and its padding mask, or None."""
    piece = context.store.get("hider", hidden.key)
    if piece is None:
        raise UserError(f"a piece is gone from {context.store.root}; start the tournament again")
    return piece.arrays["generated_data"], piece.arrays.get("padding_mask")


def check(context: Context, hidden: Done | None) -> str:
    """Train the utility predictors on a hider's data (without one, on the members) and score them; returns the key."""
    inputs = {
        "format": FORMAT,
        "trained_on": hidden.generated if hidden else "members",
        "data": context.data,
        "seed": context.seed,
        "train_frac": context.train_frac,
        "features": context.features,
        "utility_seeds": context.utility_seeds,
        "skip_osa": context.skip_osa,
        "versions": versions(),
    }
    place = key(inputs)
    with _TRAINING:
        if not context.store.has("utility", place):
            from utils.metric_utils import utility_scores

            round_ = load_round(context)
            train = preprocess_imputed(*hidden_data(context, hidden)) if hidden else round_.imputed_members()
            test = round_.imputed_others()
            scores = utility_scores(
                {"it": train},
                test,
                context.features,
                context.utility_seeds,
                one_step_ahead=not context.skip_osa,
                feature_prediction=bool(context.features),
            )["it"]
            constant = constant_scores(train, test)
            context.store.put("utility", place, Piece({"scores": [s.to_json() for s in scores]} | constant.to_json()))
    return place


def report(context: Context, hider: Entrant, hidden: Done, cells: Sequence[tuple[Entrant, Done]], utility: Any) -> None:
    """Write the reports of a hider's matches that are not there yet, as `main.py` writes one."""
    round_ = load_round(context)
    arrays = None
    for seeker, answered in cells:
        folder = match_folder(context.output, hider, seeker)
        made_from = key({"format": FORMAT, "hider": hidden.key, "seeker": answered.key, "utility": utility})
        mark = folder / "made_from"
        if mark.is_file() and mark.read_text(encoding="utf-8") == made_from:
            continue
        if arrays is None:
            generated, mask = hidden_data(context, hidden)
            rng = np.random.default_rng(context.seed)
            arrays = compare(round_, generated, mask, rng)
        answer = context.store.get("seeker", answered.key)
        hid = context.store.get("hider", hidden.key)
        assert answer is not None
        assert hid is not None
        scores = answer.arrays.get("scores")
        result = match_result(
            hider={"name": hider.name, "source": f"submission {hider.digest[:12]}", "parameters": {}},
            seeker={"name": seeker.name, "source": f"submission {seeker.digest[:12]}", "parameters": {}},
            data=round_.facts(),
            arrays=arrays,
            labels=answer.arrays["labels"],
            scores=scores,
            settings={
                "seed": context.seed,
                "train_frac": context.train_frac,
                "utility_seeds": list(context.utility_seeds),
                "features": list(context.features),
                "sandbox": context.sandbox,
            },
            utility=utility,
            utility_skipped=None if utility else "skipped in this tournament",
            warnings=round_.warnings,
            seconds={"hider": hid.facts["seconds"], "seeker": answer.facts["seconds"]},
        )
        folder.mkdir(parents=True, exist_ok=True)
        write_result(result, folder / "report.json")
        with _DRAWING:
            write_report(result, replace(arrays, scores=scores), folder / "report.html")
        write_text(mark, made_from)


def match_folder(output: Path, hider: Entrant, seeker: Entrant) -> Path:
    """Return where the report of a match is."""
    return output / "matches" / f"{hider.name}-{seeker.name}"


# --------------------------------------------------------------------------------------------------- the tournament


@dataclass
class Results:
    """What a tournament found, for the leaderboard.

    Attributes
    ----------
    hiders, seekers : list of Entrant
    refused : list of Entrant
    hidden : dict of hider's name to Done
    answers : dict of (hider's, seeker's name) to Done
    utility : dict of hider's name to dict
        As in report.json; missing where it was not checked.
    labels : dict of (hider's, seeker's name) to ndarray of bool, shape [N]
    truth : ndarray of bool, shape [N]
    """

    hiders: list[Entrant]
    seekers: list[Entrant]
    refused: list[Entrant]
    truth: np.ndarray
    settings: dict[str, Any]
    hidden: dict[str, Done] = field(default_factory=dict)
    answers: dict[tuple[str, str], Done] = field(default_factory=dict)
    utility: dict[str, dict[str, Any]] = field(default_factory=dict)
    labels: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)


def play_tournament(submissions: Sequence[str], settings: Settings, executor: Callable[[bool], Executor]) -> Results:
    """Play it, going on from whatever is finished already, and write reports and logs.

    Parameters
    ----------
    submissions : sequence of str
        Names (`addnoise`), `.py` files, zips, folders, and folders of these.
    settings : Settings
    executor : callable
        Makes the executor, given whether runs need a GPU.

    Raises
    ------
    UserError
        For bad settings or data, or where no hider or no seeker takes part.
    """
    ready = prepare(settings, submissions)
    context, round_ = ready.context, ready.round
    for entrant in ready.refused:
        print(f"refused: {entrant.refused}")
    print(
        f"{len(ready.hiders)} hiders, {len(ready.seekers)} seekers; {len(round_.data)} stays x {round_.data.shape[1]} "
        f"time points x {round_.data.shape[2]} features; sandbox: {context.sandbox}"
    )
    results = Results(ready.hiders, ready.seekers, ready.refused, round_.truth, _settings_facts(context, round_))
    with executor(context.limits.gpus) as pool:
        _Play(context, settings, ready.data_set.feature_names, results, pool).run()
    for cell, answered in results.answers.items():
        piece = context.store.get("seeker", answered.key) if answered.status == "ok" else None
        if piece is not None:
            results.labels[cell] = piece.arrays["labels"]
    _write_logs(context, results)
    return results


@dataclass(frozen=True)
class Prepared:
    """A tournament that is ready to be played."""

    context: Context
    round: Round
    data_set: data_sets.DataSet
    hiders: list[Entrant]
    seekers: list[Entrant]
    refused: list[Entrant]


def prepare(settings: Settings, submissions: Sequence[str]) -> Prepared:
    """Load the data and take the submissions in; raises as `play_tournament`."""
    output = settings.output_dir
    if output.exists() and not output.is_dir():
        raise UserError(f"{output} is a file; -o names the folder of the tournament")
    data_set = data_sets.load(settings.data_path, settings.max_seq_len, max(0, settings.debug_data))
    output.mkdir(parents=True, exist_ok=True, mode=0o700)
    entrants = enter(submissions, output)
    hiders = [entrant for entrant in entrants if entrant.role == "hider" and not entrant.refused]
    seekers = [entrant for entrant in entrants if entrant.role == "seeker" and not entrant.refused]
    if not hiders:
        raise UserError(f"no hider takes part; name one, such as {known_players('hider', HOME)[0]}")
    if not seekers:
        raise UserError(f"no seeker takes part; name one, such as {known_players('seeker', HOME)[0]}")
    context = _context(settings, data_set)
    refused = [entrant for entrant in entrants if entrant.refused]
    return Prepared(context, load_round(context), data_set, hiders, seekers, refused)


class _Play:
    """The running of a tournament: which piece follows from which."""

    def __init__(
        self, context: Context, settings: Settings, names: Sequence[str], results: Results, pool: Executor
    ) -> None:
        self.context, self.settings, self.names, self.results, self.pool = context, settings, names, results, pool
        self.pending: dict[Future[Any], Callable[[Future[Any]], None]] = {}
        self.checked = bool(context.utility_seeds)
        self.scores: dict[str, str] = {}  # by hider's name; "" is the members'
        cells = len(results.hiders) * (1 + self.checked + len(results.seekers) + 1) + self.checked
        self.bar = progress_bar(cells, "Tournament", "cell")

    def run(self) -> None:
        """Run to the end."""
        with self.bar:
            try:
                for hider in self.results.hiders:
                    self._submit(functools.partial(self._hidden, hider), hide, self.context, hider)
                if self.checked:
                    self._submit(functools.partial(self._scored, None), check, self.context, None)
                while self.pending:
                    for future in wait(self.pending, return_when=FIRST_COMPLETED).done:
                        self.bar.update()
                        self.pending.pop(future)(future)
            except BaseException:
                for future in self.pending:
                    future.cancel()
                raise

    def _submit(self, then: Callable[[Future[Any]], None], work: Callable[..., Any], *arguments: Any) -> None:
        self.pending[self.pool.submit(work, *arguments)] = then

    def _hidden(self, hider: Entrant, future: Future[Done]) -> None:
        done = _result(future)
        self.results.hidden[hider.name] = done
        if done.status != "ok":
            self.bar.update(self.checked + len(self.results.seekers) + 1)
        elif self.checked:
            self._submit(functools.partial(self._scored, hider), check, self.context, done)
        else:
            self._seek(hider)

    def _scored(self, hider: Entrant | None, future: Future[str]) -> None:
        self.scores[hider.name if hider else ""] = future.result()
        for waiting in self.results.hiders:
            if {"", waiting.name} <= self.scores.keys() and waiting.name not in self.results.utility:
                self._judge(waiting)

    def _judge(self, hider: Entrant) -> None:
        original, generated = (self.context.store.get("utility", self.scores[name]) for name in ("", hider.name))
        assert original is not None
        assert generated is not None
        utility = judge_pieces(self.context, original, generated, self.names)
        self.results.utility[hider.name] = utility
        if utility["passed"] or self.settings.play_all:
            self._seek(hider)
        else:
            self.bar.update(len(self.results.seekers) + 1)

    def _seek(self, hider: Entrant) -> None:
        for seeker in self.results.seekers:
            cell = functools.partial(self._answered, hider, seeker)
            self._submit(cell, seek, self.context, seeker, self.results.hidden[hider.name])

    def _answered(self, hider: Entrant, seeker: Entrant, future: Future[Done]) -> None:
        answers = self.results.answers
        answers[hider.name, seeker.name] = _result(future)
        row = [(s, answers[hider.name, s.name]) for s in self.results.seekers if (hider.name, s.name) in answers]
        if len(row) == len(self.results.seekers):
            cells = [(s, done) for s, done in row if done.status == "ok"]
            hidden, utility = self.results.hidden[hider.name], self.results.utility.get(hider.name)
            self._submit(lambda future: future.result(), report, self.context, hider, hidden, cells, utility)


def _result(future: Future[Done]) -> Done:
    """Return how a run ended; a cluster that lost a worker several times over it fails this run alone."""
    error = future.exception()
    if error is not None and type(error).__name__ == "KilledWorker":
        return Done("", "failed", "its worker died again and again")
    return future.result()


def judge_pieces(context: Context, original: Piece, generated: Piece, names: Sequence[str]) -> dict[str, Any]:
    """Judge a hider's utility by the means of its scores over the seeds."""
    from scoring.utility.challenge import ConstantScores, mean_scores
    from utils.metric_utils import UtilityScores

    before, after = (
        mean_scores([UtilityScores.from_json(scores) for scores in piece.facts["scores"]])
        for piece in (original, generated)
    )
    constant = ConstantScores.from_json(original.facts)
    judged = judge(before, after, constant, names, context.auroc_threshold, context.rmse_threshold)
    return plain_json(judged)


def _context(settings: Settings, data_set: data_sets.DataSet) -> Context:
    count = len(data_set.feature_names)
    tested = settings.feature_prediction_no or min(TESTED_FEATURES, count)
    if tested > count:
        raise UserError(f"--feature_prediction_no {tested}: the data have only {count} features")
    round_ = Round.of(data_set, divide_as_2020(data_set, settings.seed, settings.train_frac))
    checked = not (settings.skip_fp and settings.skip_osa)
    if checked and not tf115_found:
        print("warning: utility checks skipped: TensorFlow is not installed")
        checked = False
    kind = choose_sandbox(settings.sandbox, settings.python or sys.executable).name
    assert kind in ("docker", "process")
    context = Context(
        output=settings.output_dir.resolve(),
        data=data_set.sha256,
        seed=settings.seed,
        train_frac=settings.train_frac,
        features=() if settings.skip_fp else tuple(draw_features(count, tested, settings.seed)),
        utility_seeds=UTILITY_SEEDS[: settings.utility_seeds] if checked else (),
        skip_osa=settings.skip_osa,
        auroc_threshold=settings.hider_eval_threshold,
        rmse_threshold=match.RMSE_THRESHOLD,
        sandbox=kind,  # type: ignore[arg-type]
        python=settings.python,
        limits=settings.limits,
        retry=settings.retry,
    )
    if not context.store.has("data", context.data):
        facts = {"data": plain_json(round_.facts()), "warnings": data_set.warnings}
        arrays = {"data": data_set.data, "padding_mask": data_set.padding_mask}
        if data_set.patients is not None:
            arrays["patients"] = data_set.patients
        context.store.put("data", context.data, Piece(facts, arrays))
    return context


def _settings_facts(context: Context, round_: Round) -> dict[str, Any]:
    return {
        "data": round_.name,
        "sha256": context.data,
        "stays": len(round_.data),
        "members": len(round_.members),
        "chance": max(len(round_.members), len(round_.others)) / len(round_.data),
        "seed": context.seed,
        "train_frac": context.train_frac,
        "features": list(context.features),
        "utility_seeds": list(context.utility_seeds),
        "auroc_threshold": context.auroc_threshold,
        "rmse_threshold": context.rmse_threshold,
        "sandbox": context.sandbox,
    }


# ---------------------------------------------------------------------------------------------------- the submissions


def enter(submissions: Sequence[str], output: Path) -> list[Entrant]:
    """Take submissions in: each is checked and copied to `output/submissions/` under the digest of its files.

    Raises
    ------
    UserError
        Where there is nothing of a name; a submission that is no good is an Entrant that was refused.
    """
    entrants: list[Entrant] = []
    for name, role, source in _sources(submissions):
        entrant = _take_in(name, role, source, output / "submissions")
        taken = {e.name for e in entrants if e.role == entrant.role}
        names = (name, *(f"{name}-{i}" for i in range(2, len(entrants) + 3)))
        entrants.append(replace(entrant, name=next(n for n in names if n not in taken)))
    return entrants


def _sources(submissions: Sequence[str]) -> Iterator[tuple[str, Role | None, Path]]:
    """Yield name, role where it is known, and path of each submission."""
    roles: tuple[Role, ...] = ("hider", "seeker")
    for wanted in submissions:
        named = [(role, HOME / f"{role}_{wanted}.py") for role in roles if (HOME / f"{role}_{wanted}.py").is_file()]
        path = Path(wanted)
        if named:
            yield from ((wanted, role, source) for role, source in named)
        elif path.is_dir() and not any((path / f"{role}.py").is_file() for role in roles):
            inside = [
                found
                for found in sorted(path.iterdir())
                if found.suffix == ".zip"
                or (found.suffix == ".py" and found.name.startswith(roles))
                or (found.is_dir() and any((found / f"{role}.py").is_file() for role in roles))
            ]
            if not inside:
                raise UserError(f"{wanted} holds no submissions: no zip, hider_*.py, seeker_*.py or unpacked folder")
            yield from ((_name(found), None, found) for found in inside)
        elif path.exists():
            yield _name(path), None, path
        else:
            known = ", ".join(sorted({name for role in roles for name in known_players(role, HOME)}))
            raise UserError(f"unknown submission '{wanted}'; known are {known}; or name a zip, a folder or a .py file")


def _name(path: Path) -> str:
    stem = re.sub(r"^(hider|seeker)_", "", path.resolve().stem if path.is_file() else path.resolve().name)
    return re.sub(r"[^\w.-]", "_", stem) or "submission"


def _take_in(name: str, role: Role | None, source: Path, folder: Path) -> Entrant:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = Path(tempfile.mkdtemp(prefix=".", dir=folder))
    try:
        submission = take_in(source, temporary / "it", role)
        place = folder / submission.digest
        if place.is_dir() and digest(place) != submission.digest:  # somebody touched it
            shutil.rmtree(place)
        if not place.is_dir():
            os.rename(submission.folder, place)
        return Entrant(name, submission.role, submission.digest, submission.image)
    except UserError as error:
        return Entrant(name, role, refused=str(error))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# -------------------------------------------------------------------------------------------------------------- logs


def _write_logs(context: Context, results: Results) -> None:
    """Write what each run printed, for the organiser, and its redacted traceback, for the submitter."""
    runs = [(f"hider {name}", "hider", done) for name, done in results.hidden.items()]
    runs += [(f"seeker {s} against {h}", "seeker", done) for (h, s), done in results.answers.items()]
    for title, kind, done in runs:
        piece = context.store.get(kind, done.key) if done.key else None
        facts = piece.facts if piece else {"status": done.status, "reason": done.reason}
        name = title.replace(" ", "_") + ".txt"
        text = f"{title}: {facts['status']} {facts['reason']}\n"
        for part in ("submitter_log", "stdout", "stderr"):
            text += f"\n--- {part}\n{facts.get(part, '')}"
        for_submitter = f"{title}: {facts['status']} {facts['reason']}\n\n{facts.get('submitter_log', '')}"
        for folder, content in (("organiser", text), ("submitters", for_submitter)):
            write_text(context.output / "logs" / folder / name, content)
