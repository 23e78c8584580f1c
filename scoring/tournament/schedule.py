"""Every hider against every seeker: each hider runs once, its utility is judged, each seeker plays each hider."""

import functools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from scoring import match
from scoring.attacks import self_contained_seekers
from scoring.data import datasets as data_sets
from scoring.sandbox import choose_sandbox
from scoring.strangers import Reason
from scoring.submissions.players import known_players
from scoring.submissions.submission import HOME
from scoring.tournament.intake import Entrant, enter
from scoring.tournament.reports import write_logs, write_reports
from scoring.tournament.secret import organiser_key
from scoring.tournament.settings import TESTED_FEATURES, UTILITY_SEEDS, Context, Settings
from scoring.tournament.work import FinishedRun, hide, judge_utility, score_kept, score_utility, seek, split, store_data
from scoring.utility.challenge import draw_features
from utils.errors import UserError
from utils.misc import tf115_found
from utils.progress import progress_bar
from utils.text import printable


@dataclass
class Results:
    """What a tournament found, for the leaderboard.

    Attributes
    ----------
    hiders, seekers : list of Entrant
    refused : list of Entrant
    truth : dict of hider's name to ndarray of bool, shape [N]
        True for its members, in the order of the data set, for each hider has a split of its own.
    settings : dict
        The `settings` part of leaderboard.json.
    hider_runs : dict of hider's name to FinishedRun
    seeker_runs : dict of (hider's, seeker's name) to FinishedRun
    utility : dict of hider's name to dict
        As in report.json: `kept`, and the results of the 2020 checks if they were run.
    labels : dict of (hider's, seeker's name) to ndarray of bool, shape [N]
        In the order of the data set.
    unreported : set of (hider's, seeker's name)
        Matches of which no report could be written.
    """

    hiders: list[Entrant]
    seekers: list[Entrant]
    refused: list[Entrant]
    truth: dict[str, np.ndarray]
    settings: dict[str, Any]
    hider_runs: dict[str, FinishedRun] = field(default_factory=dict)
    seeker_runs: dict[tuple[str, str], FinishedRun] = field(default_factory=dict)
    utility: dict[str, dict[str, Any]] = field(default_factory=dict)
    labels: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    unreported: set[tuple[str, str]] = field(default_factory=set)


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
    context, data_set = ready.context, ready.data_set
    for entrant in ready.refused:
        print(f"refused: {printable(entrant.refused)}")
    stays, time_points, features = data_set.data.shape
    print(
        f"{len(ready.hiders)} hiders, {len(ready.seekers)} seekers; {stays} stays x {time_points} time points x "
        f"{features} features; sandbox: {context.sandbox}"
    )
    splits = {hider.name: split(context, data_set, hider.identity) for hider in ready.hiders}
    truth = {name: np.isin(np.arange(stays), division.members) for name, division in splits.items()}
    members = int(next(iter(truth.values())).sum())
    results = Results(ready.hiders, ready.seekers, ready.refused, truth, context.facts(data_set, members))
    with executor(context.limits.gpus) as pool:
        _Schedule(context, settings.play_all, data_set.feature_names, results, pool).run()
    for (hider, seeker), run in results.seeker_runs.items():
        answer = context.store.get("seeker", run.key) if run.status == "ok" else None
        if answer is not None:
            in_file_order = np.argsort(splits[hider].order)
            results.labels[hider, seeker] = answer.arrays["labels"][in_file_order]
    for failure in write_logs(context, results.refused, results.hider_runs, results.seeker_runs):
        print(failure, file=sys.stderr)
    return results


@dataclass(frozen=True)
class ReadyTournament:
    """A tournament that is ready to be played: the data are loaded and the submissions taken in."""

    context: Context
    data_set: data_sets.DataSet
    hiders: list[Entrant]
    seekers: list[Entrant]
    refused: list[Entrant]


def prepare(settings: Settings, submissions: Sequence[str]) -> ReadyTournament:
    """Load the data and take the submissions in. Raises as `play_tournament` does."""
    output = settings.output_dir
    if output.exists() and not output.is_dir():
        raise UserError(f"{output} is a file; -o names the folder of the tournament")
    data_set = data_sets.load(settings.data_path, settings.max_seq_len, max(0, settings.debug_data), settings.outcomes)
    output.mkdir(parents=True, exist_ok=True, mode=0o700)
    entrants = enter(submissions, output)
    hiders = [entrant for entrant in entrants if entrant.role == "hider" and not entrant.refused]
    seekers = [entrant for entrant in entrants if entrant.role == "seeker" and not entrant.refused]
    if not hiders:
        raise UserError(f"no hider takes part; name one, such as {known_players('hider', HOME)[0]}")
    if not seekers and not any(entrant.role == "seeker" for entrant in entrants):
        names = self_contained_seekers(HOME)
        print(f"no seeker named: playing {', '.join(names)}")
        left = sorted(set(known_players("seeker", HOME)) - set(names))
        if left:
            print(f"not played unless named (slow, or in need of code): {', '.join(left)}")
        seekers = [e for e in enter(names, output) if e.role == "seeker" and not e.refused]
    if not seekers:
        raise UserError(f"no seeker takes part; name one, such as {known_players('seeker', HOME)[0]}")
    context = _context(settings, data_set)
    store_data(context, data_set)
    refused = [entrant for entrant in entrants if entrant.refused]
    return ReadyTournament(context, data_set, hiders, seekers, refused)


def _context(settings: Settings, data_set: data_sets.DataSet) -> Context:
    count = len(data_set.feature_names)
    tested = settings.feature_prediction_no or min(TESTED_FEATURES, count)
    if tested > count:
        raise UserError(f"--feature_prediction_no {tested}: the data have only {count} features")
    checked = not (settings.skip_fp and settings.skip_osa)
    if checked and not tf115_found:
        print("warning: 2020 checks of utility skipped: TensorFlow is not installed")
        checked = False
    sandbox = choose_sandbox(settings.sandbox, settings.python or sys.executable, settings.images).name
    key = (settings.key or settings.output_dir / "key").resolve()
    organiser_key(key)  # drawn at the first start, and a bad one is refused before anything runs
    assert sandbox in ("docker", "process")
    return Context(
        output=settings.output_dir.resolve(),
        data=data_set.sha256,
        key=key,
        seed=settings.seed,
        train_frac=settings.train_frac,
        features=() if settings.skip_fp else tuple(draw_features(count, tested, settings.seed)),
        utility_seeds=UTILITY_SEEDS[: settings.utility_seeds] if checked else (),
        skip_osa=settings.skip_osa,
        auroc_threshold=settings.hider_eval_threshold,
        rmse_threshold=match.RMSE_THRESHOLD,
        sandbox=sandbox,  # type: ignore[arg-type]
        python=settings.python,
        images=settings.images,
        limits=settings.limits,
        retry=settings.retry,
    )


class _Schedule:
    """Which work follows from which: a hider's run, its kept utility, the 2020 checks, the seekers, the reports."""

    def __init__(
        self, context: Context, play_all: bool, names: Sequence[str], results: Results, pool: Executor
    ) -> None:
        self.context, self.play_all, self.names, self.results, self.pool = context, play_all, names, results, pool
        self.pending: dict[Future[Any], Callable[[Future[Any]], None]] = {}
        self.checked = bool(context.utility_seeds)
        # Keys of the utility scores, by hider's name: of its data, and of its members themselves.
        self.scores: dict[tuple[str, Literal["generated", "members"]], str] = {}
        units = len(results.hiders) * (2 + 2 * self.checked + len(results.seekers) + 1)
        self.bar = progress_bar(units, "Tournament", "cell")

    def run(self) -> None:
        """Run to the end."""
        with self.bar:
            try:
                for hider in self.results.hiders:
                    self._submit(functools.partial(self._after_hiding, hider), hide, self.context, hider)
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
            self.bar.update(1 + 2 * self.checked + len(self.results.seekers) + 1)
        else:
            self._submit(functools.partial(self._after_judging, hider), score_kept, self.context, hider, run)

    def _after_judging(self, hider: Entrant, future: Future[FinishedRun | dict[str, Any]]) -> None:
        kept = future.result()
        if isinstance(kept, FinishedRun):  # its data broke the scoring
            self.results.hider_runs[hider.name] = kept
            self.bar.update(2 * self.checked + len(self.results.seekers) + 1)
            return
        self.results.utility[hider.name] = {"kept": kept}
        if self.checked:
            run = self.results.hider_runs[hider.name]
            self._submit(
                functools.partial(self._after_scoring, hider, "generated"), score_utility, self.context, hider, run
            )
            self._submit(
                functools.partial(self._after_scoring, hider, "members"), score_utility, self.context, hider, None
            )
        else:
            self._seek(hider)

    def _after_scoring(
        self, hider: Entrant, trained_on: Literal["generated", "members"], future: Future[FinishedRun | str]
    ) -> None:
        """Judge a hider's utility once its data's scores and its members' are both there."""
        scored = future.result()
        if isinstance(scored, FinishedRun):  # its data broke the scoring
            self.results.hider_runs[hider.name] = scored
            self.bar.update(len(self.results.seekers) + 1)
            return
        self.scores[hider.name, trained_on] = scored
        if (hider.name, "generated") not in self.scores or (hider.name, "members") not in self.scores:
            return
        utility = judge_utility(
            self.context, self.scores[hider.name, "members"], self.scores[hider.name, "generated"], self.names
        )
        self.results.utility[hider.name] |= utility
        if utility["passed"] is not False or self.play_all:
            self._seek(hider)
        else:
            self.bar.update(len(self.results.seekers) + 1)

    def _seek(self, hider: Entrant) -> None:
        for seeker in self.results.seekers:
            then = functools.partial(self._after_seeking, hider, seeker)
            self._submit(then, seek, self.context, seeker, hider, self.results.hider_runs[hider.name])

    def _after_seeking(self, hider: Entrant, seeker: Entrant, future: Future[FinishedRun]) -> None:
        runs = self.results.seeker_runs
        runs[hider.name, seeker.name] = _finished(future)
        row = [(s, runs[hider.name, s.name]) for s in self.results.seekers if (hider.name, s.name) in runs]
        if len(row) == len(self.results.seekers):
            answered = [(s, run) for s, run in row if run.status == "ok"]
            hider_run, utility = self.results.hider_runs[hider.name], self.results.utility[hider.name]
            self._submit(self._after_reports, write_reports, self.context, hider, hider_run, answered, utility)

    def _after_reports(self, future: Future[dict[tuple[str, str], str]]) -> None:
        for (hider, seeker), detail in future.result().items():
            print(f"warning: no report of {hider} against {seeker}: {detail}", file=sys.stderr)
            self.results.unreported.add((hider, seeker))


def _finished(future: Future[FinishedRun]) -> FinishedRun:
    """Return how a run ended. If a cluster lost several workers over a run, that run alone fails."""
    error = future.exception()
    if error is not None and type(error).__name__ == "KilledWorker":
        return FinishedRun("", "failed", Reason.LOST_WORKER)
    return future.result()
