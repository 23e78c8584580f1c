"""Every hider against every seeker: each hider runs once, its utility is checked, each seeker plays each hider."""

import functools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scoring import match
from scoring.data import datasets as data_sets
from scoring.round import Round
from scoring.sandbox import choose_sandbox
from scoring.submissions.players import known_players
from scoring.submissions.submission import HOME
from scoring.tournament.intake import Entrant, enter
from scoring.tournament.reports import write_logs, write_reports
from scoring.tournament.settings import TESTED_FEATURES, UTILITY_SEEDS, Context, Settings
from scoring.tournament.work import FinishedRun, hide, judge_utility, load_round, score_utility, seek, store_data
from scoring.utility.challenge import draw_features
from utils.errors import UserError
from utils.misc import tf115_found
from utils.progress import progress_bar


@dataclass
class Results:
    """What a tournament found, for the leaderboard.

    Attributes
    ----------
    hiders, seekers : list of Entrant
    refused : list of Entrant
    truth : ndarray of bool, shape [N]
        True for members.
    settings : dict
        The `settings` part of leaderboard.json.
    hider_runs : dict of hider's name to FinishedRun
    seeker_runs : dict of (hider's, seeker's name) to FinishedRun
    utility : dict of hider's name to dict
        As in report.json. It is missing if it was not checked.
    labels : dict of (hider's, seeker's name) to ndarray of bool, shape [N]
    """

    hiders: list[Entrant]
    seekers: list[Entrant]
    refused: list[Entrant]
    truth: np.ndarray
    settings: dict[str, Any]
    hider_runs: dict[str, FinishedRun] = field(default_factory=dict)
    seeker_runs: dict[tuple[str, str], FinishedRun] = field(default_factory=dict)
    utility: dict[str, dict[str, Any]] = field(default_factory=dict)
    labels: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)


def play_tournament(submissions: Sequence[str], settings: Settings, executor: Callable[[bool], Executor]) -> Results:
    """Play a tournament, going on from whatever is finished already, and write reports and logs.

    Parameters
    ----------
    submissions : sequence of str
        As for `intake.enter`.
    settings : Settings
    executor : callable
        Makes the executor. Its argument says whether runs need a GPU.

    Raises
    ------
    UserError
        If the settings or the data are bad, or no hider or no seeker takes part.
    """
    ready = prepare(settings, submissions)
    context, round_ = ready.context, ready.round
    for entrant in ready.refused:
        print(f"refused: {entrant.refused}")
    stays, time_points, features = round_.data.shape
    print(
        f"{len(ready.hiders)} hiders, {len(ready.seekers)} seekers; {stays} stays x {time_points} time points x "
        f"{features} features; sandbox: {context.sandbox}"
    )
    results = Results(ready.hiders, ready.seekers, ready.refused, round_.truth, context.facts(round_))
    with executor(context.limits.gpus) as pool:
        _Schedule(context, settings.play_all, round_.feature_names, results, pool).run()
    for pair, run in results.seeker_runs.items():
        answer = context.store.get("seeker", run.key) if run.status == "ok" else None
        if answer is not None:
            results.labels[pair] = answer.arrays["labels"]
    write_logs(context, results.hider_runs, results.seeker_runs)
    return results


@dataclass(frozen=True)
class ReadyTournament:
    """A tournament that is ready to be played: the data are loaded and the submissions taken in."""

    context: Context
    round: Round
    data_set: data_sets.DataSet
    hiders: list[Entrant]
    seekers: list[Entrant]
    refused: list[Entrant]


def prepare(settings: Settings, submissions: Sequence[str]) -> ReadyTournament:
    """Load the data and take the submissions in. Raises as `play_tournament` does."""
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
    store_data(context, data_set)
    refused = [entrant for entrant in entrants if entrant.refused]
    return ReadyTournament(context, load_round(context), data_set, hiders, seekers, refused)


def _context(settings: Settings, data_set: data_sets.DataSet) -> Context:
    count = len(data_set.feature_names)
    tested = settings.feature_prediction_no or min(TESTED_FEATURES, count)
    if tested > count:
        raise UserError(f"--feature_prediction_no {tested}: the data have only {count} features")
    checked = not (settings.skip_fp and settings.skip_osa)
    if checked and not tf115_found:
        print("warning: utility checks skipped: TensorFlow is not installed")
        checked = False
    sandbox = choose_sandbox(settings.sandbox, settings.python or sys.executable).name
    assert sandbox in ("docker", "process")
    return Context(
        output=settings.output_dir.resolve(),
        data=data_set.sha256,
        seed=settings.seed,
        train_frac=settings.train_frac,
        features=() if settings.skip_fp else tuple(draw_features(count, tested, settings.seed)),
        utility_seeds=UTILITY_SEEDS[: settings.utility_seeds] if checked else (),
        skip_osa=settings.skip_osa,
        auroc_threshold=settings.hider_eval_threshold,
        rmse_threshold=match.RMSE_THRESHOLD,
        sandbox=sandbox,  # type: ignore[arg-type]
        python=settings.python,
        limits=settings.limits,
        retry=settings.retry,
    )


class _Schedule:
    """Which work follows from which: a hider's run, then its utility, then the seekers, then the reports."""

    def __init__(
        self, context: Context, play_all: bool, names: Sequence[str], results: Results, pool: Executor
    ) -> None:
        self.context, self.play_all, self.names, self.results, self.pool = context, play_all, names, results, pool
        self.pending: dict[Future[Any], Callable[[Future[Any]], None]] = {}
        self.checked = bool(context.utility_seeds)
        self.hider_scores: dict[str, str] = {}  # keys of the utility scores, by hider's name
        self.member_scores = ""  # key of the utility scores of the members themselves
        units = len(results.hiders) * (1 + self.checked + len(results.seekers) + 1) + self.checked
        self.bar = progress_bar(units, "Tournament", "cell")

    def run(self) -> None:
        """Run to the end."""
        with self.bar:
            try:
                for hider in self.results.hiders:
                    self._submit(functools.partial(self._after_hiding, hider), hide, self.context, hider)
                if self.checked:
                    self._submit(self._after_scoring_members, score_utility, self.context, None)
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

    def _after_hiding(self, hider: Entrant, future: Future[FinishedRun]) -> None:
        run = _finished(future)
        self.results.hider_runs[hider.name] = run
        if run.status != "ok":
            self.bar.update(self.checked + len(self.results.seekers) + 1)
        elif self.checked:
            self._submit(functools.partial(self._after_scoring, hider), score_utility, self.context, run)
        else:
            self._seek(hider)

    def _after_scoring_members(self, future: Future[str]) -> None:
        self.member_scores = future.result()
        for hider in self.results.hiders:
            self._judge(hider)

    def _after_scoring(self, hider: Entrant, future: Future[str]) -> None:
        self.hider_scores[hider.name] = future.result()
        self._judge(hider)

    def _judge(self, hider: Entrant) -> None:
        """Judge a hider's utility once its scores and the members' scores are both there."""
        if not self.member_scores or hider.name not in self.hider_scores:
            return
        utility = judge_utility(self.context, self.member_scores, self.hider_scores[hider.name], self.names)
        self.results.utility[hider.name] = utility
        if utility["passed"] or self.play_all:
            self._seek(hider)
        else:
            self.bar.update(len(self.results.seekers) + 1)

    def _seek(self, hider: Entrant) -> None:
        for seeker in self.results.seekers:
            then = functools.partial(self._after_seeking, hider, seeker)
            self._submit(then, seek, self.context, seeker, self.results.hider_runs[hider.name])

    def _after_seeking(self, hider: Entrant, seeker: Entrant, future: Future[FinishedRun]) -> None:
        runs = self.results.seeker_runs
        runs[hider.name, seeker.name] = _finished(future)
        row = [(s, runs[hider.name, s.name]) for s in self.results.seekers if (hider.name, s.name) in runs]
        if len(row) == len(self.results.seekers):
            answered = [(s, run) for s, run in row if run.status == "ok"]
            hider_run, utility = self.results.hider_runs[hider.name], self.results.utility.get(hider.name)
            self._submit(Future.result, write_reports, self.context, hider, hider_run, answered, utility)


def _finished(future: Future[FinishedRun]) -> FinishedRun:
    """Return how a run ended. If a cluster lost several workers over a run, that run alone fails."""
    error = future.exception()
    if error is not None and type(error).__name__ == "KilledWorker":
        return FinishedRun("", "failed", "its worker died again and again")
    return future.result()
