"""What audit.py calls: load the tables, work through the pieces, judge, write the report."""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scoring import executors
from scoring.audit import power, work
from scoring.audit.assemble import Pieces, concluded, findings, known_answers
from scoring.audit.attackers import Absent, Attacker, find_attackers
from scoring.audit.claims import privacy_claim
from scoring.audit.tables import Source, Tables, load_split_table, load_tables
from scoring.audit.verdict import LEAK
from scoring.submissions.players import find_player
from utils.errors import UserError
from utils.progress import progress_bar

SLOW = 120.0  # seconds of an attack, beyond which it is not asked again for the positive control


@dataclass(frozen=True)
class Settings:
    """What the user asked for.

    Attributes
    ----------
    home : Path
        The folder in which seekers and hiders are.
    output : Path
    members, others, synthetic
        As `tables.load_table` takes them.
    data, split
        One table of real stays and who of them is a member, in place of `members` and `others`.
    hider, hider_parameters
        The generator, if it is to be run for the shadow audit.
    shadow_parameters : str
        More parameters for seekers that run the hider.
    """

    home: Path
    output: Path
    synthetic: Source
    members: Source = None
    others: Source = None
    data: Path | None = None
    split: str | None = None
    max_seq_len: int = 100
    seed: int = 0
    hider: str | None = None
    hider_parameters: str | None = None
    shadow_parameters: str = ""
    slow: bool = False
    skip_power: bool = False
    provenance_unknown: bool = False
    workers: int | None = None
    scheduler: str | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        if (self.data is None) == (self.members is None or self.others is None):
            raise UserError("name the real stays: --members and --others, or --data and --split")
        if self.data is not None and not self.split:
            raise UserError("--data needs --split: a column or a file that says who is a member")
        if self.data is None and self.split:
            raise UserError("--split divides the stays of --data; with --members and --others leave it out")
        if self.hider is None and (self.hider_parameters or self.shadow_parameters):
            raise UserError("parameters of a hider need --hider")
        if self.workers is not None and self.workers < 1:
            raise UserError(f"--workers must be at least 1, not {self.workers}")


def run_audit(settings: Settings) -> tuple[dict[str, Any], Tables, dict[str, np.ndarray]]:
    """Audit a release. Finished pieces are kept in the output folder, and a later start goes on with the next one.

    Returns
    -------
    result : dict
        What report.json holds.
    tables : Tables
    arrays : dict of str to ndarray
        `probability` of membership [N], and what was found of each released stay.

    Raises
    ------
    UserError
        If the settings or the tables are bad.
    """
    began = time.perf_counter()
    if settings.output.exists() and not settings.output.is_dir():
        raise UserError(f"{settings.output} is a file; -o names the folder of the audit")
    if settings.data is not None:
        assert settings.split is not None
        tables = load_split_table(
            settings.data, settings.split, settings.synthetic, settings.max_seq_len, settings.seed
        )
    else:
        tables = load_tables(settings.members, settings.others, settings.synthetic, settings.max_seq_len, settings.seed)
    hider = find_player("hider", settings.hider, settings.home) if settings.hider else None
    claim = privacy_claim(hider.source, settings.hider_parameters or hider.setting, tables.round) if hider else None
    settings.output.mkdir(parents=True, exist_ok=True, mode=0o700)
    attackers, absent = find_attackers(
        settings.home,
        slow=settings.slow,
        hider=_with_setting(str(hider.source), settings.hider_parameters or hider.setting) if hider else None,
        hider_parameters=settings.shadow_parameters,
        folder=settings.output.resolve() / "shadow",
    )
    workers = settings.workers or min(4, executors.cores())
    context = work.store_data(settings.output, settings.home, tables, threads=max(1, executors.cores() // workers))
    if settings.progress:
        _say_what_is_audited(tables, attackers, absent)
    pool = executors.cluster(settings.scheduler)(False) if settings.scheduler else executors.local(workers)
    with pool:
        schedule = _Schedule(context, attackers, pool, settings.progress)
        pieces = schedule.look()
        result, arrays = findings(tables, context.store, pieces, absent, claim, _settings_facts(settings))
        final = concluded(result, None, time.perf_counter() - began)
        # What leaks needs no proof that a leak would have been found.
        if final["evidence"] != LEAK and not settings.skip_power and pieces.asked_again:
            tried = schedule.plant(pieces, tables)
            told = known_answers(context.store, tried, pieces.asked_again, len(tables.round.members))
            final = concluded(result, told, time.perf_counter() - began)
    work.forget_data(context)
    return final, tables, arrays


def _settings_facts(settings: Settings) -> dict[str, Any]:
    names = ("max_seq_len", "seed", "split", "hider_parameters", "shadow_parameters", "slow", "skip_power")
    facts = {name: getattr(settings, name) for name in (*names, "provenance_unknown")}
    return {**facts, "hider": settings.hider and Path(settings.hider).name}


def _with_setting(source: str, setting: str | None) -> str:
    """Name a hider and its setting as a seeker's parameter does: with semicolons, as commas divide its own."""
    if "," in source:
        raise UserError(f"the path of the hider may not hold a comma: {source}")
    return f"{source}:{setting.replace(',', ';')}" if setting else source


def _say_what_is_audited(tables: Tables, attackers: Sequence[Attacker], absent: Sequence[Absent]) -> None:
    _, time_points, features = tables.round.data.shape
    print(
        f"{len(tables.round.members):,} members, {len(tables.round.others):,} others, "
        f"{len(tables.generated):,} released stays; up to {time_points} time points x {features} features"
    )
    print(f"attacks: {', '.join(attacker.name for attacker in attackers) or 'none'}")
    for one in absent:
        print(f"not taking part: {one.name}: {one.reason}")
    for note in tables.notes:
        print(f"note: {note}")
    sys.stdout.flush()


class _Schedule:
    """The pieces in the order in which they follow from each other."""

    def __init__(self, context: work.Context, attackers: Sequence[Attacker], pool: Executor, progress: bool) -> None:
        self.context, self.attackers, self.pool, self.progress = context, list(attackers), pool, progress

    def look(self) -> Pieces:
        """Run all attacks and measures on the release."""
        whole: dict[str, Callable[..., str]] = {
            "provenance": work.look_for_real_stays,
            "risks": work.measure_risks,
            "utility": work.measure_utility,
            "differences": work.compare_sides,
        }
        attacks: dict[str, str] = {}
        failed: dict[str, str] = {}
        with progress_bar(len(whole) + len(self.attackers), "audit", "piece", show=self.progress) as bar:
            playing = {a.name: self._submit(bar, work.play_attack, a) for a in self.attackers}
            futures = {name: self._submit(bar, piece) for name, piece in whole.items()}
            for name, future in playing.items():
                try:
                    attacks[name] = future.result()
                except UserError as error:
                    failed[name] = str(error)
            found = {name: future.result() for name, future in futures.items()}
        again = [
            a.name
            for a in self.attackers
            if a.name in attacks and "hider=" not in a.setting and self._fast(attacks[a.name])
        ]
        return Pieces(**found, attackers=self.attackers, attacks=attacks, failed=failed, asked_again=again)

    def plant(self, pieces: Pieces, tables: Tables) -> dict[str, dict[float, list[str]]]:
        """Search for the smallest leak of each kind that every trial finds, by halving the ladder of sizes."""
        attackers = tuple(a for a in self.attackers if a.name in pieces.asked_again)
        ladders = {kind: power.sizes(kind, tables.round) for kind in power.SIZES}
        spans = {kind: [0, len(ladder)] for kind, ladder in ladders.items()}
        tried: dict[str, dict[float, list[str]]] = {kind: {} for kind in ladders}
        with progress_bar(0, "known answers", "trial", show=self.progress) as bar:
            while open_ := [kind for kind, (low, high) in spans.items() if low < high]:
                jobs: dict[Future[str], tuple[str, float]] = {}
                for kind in open_:
                    leak = power.Leak(kind, ladders[kind][sum(spans[kind]) // 2])
                    bar.total += power.TRIALS
                    for trial in range(power.TRIALS):
                        job = self._submit(bar, work.try_known_answer, attackers, leak, trial)
                        jobs[job] = (kind, leak.size)
                for future in as_completed(jobs):
                    if future.cancelled():
                        continue
                    kind, size = jobs[future]
                    tried[kind].setdefault(size, []).append(future.result())
                    if not self._found(tried[kind][size][-1]):  # every trial must find it
                        for other, same in jobs.items():
                            if same == (kind, size):
                                other.cancel()
                for kind in open_:
                    middle = sum(spans[kind]) // 2
                    every = all(self._found(place) for place in tried[kind][ladders[kind][middle]])
                    spans[kind][1 if every else 0] = middle if every else middle + 1
        return tried

    def _submit(self, bar: Any, piece: Callable[..., str], *arguments: Any) -> Future[str]:
        future = self.pool.submit(piece, self.context, *arguments)
        future.add_done_callback(lambda _: bar.update())
        return future

    def _fast(self, place: str) -> bool:
        piece = self.context.store.get("attack", place)
        return bool(piece and piece.facts["seconds"] < SLOW)

    def _found(self, place: str) -> bool:
        piece = self.context.store.get("power", place)
        return bool(piece and piece.facts["found"])
