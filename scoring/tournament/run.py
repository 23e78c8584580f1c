"""What tournament.py calls: settings, workers, and what is told at the end."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scoring.executors import cluster
from scoring.report.leaderboard import write_leaderboard
from scoring.sandbox import Limits
from scoring.sandbox.interface import GIB
from scoring.tournament.schedule import play_tournament
from scoring.tournament.settings import Settings
from utils.errors import UserError


def run(
    submissions: list[str],
    *,
    workers: int = 1,
    scheduler: str | None = None,
    codabench: Path | None = None,
    image: str | None = None,
    queue: str | None = None,
    seconds: float = Limits.seconds,
    memory: float = Limits.memory / GIB,
    cpus: float | None = None,
    gpus: bool = False,
    **settings: Any,
) -> None:
    """Play a tournament, or write a Codabench bundle.

    Parameters
    ----------
    submissions : list of str
    workers : int
        Pieces worked on at a time on this machine. What runs is in sandboxes of its own, so threads are enough.
    scheduler : str, optional
        Address of a Dask scheduler, to work on its cluster instead.
    codabench : Path, optional
        Instead of playing, where to write a bundle: a zip, or a folder for one.
    image : str, optional
        The Docker image that Codabench is told to use.
    queue : str, optional
        The organiser's own queue at Codabench. A bundle is not written without.
    seconds, memory (GiB), cpus, gpus
        Limits of one run.
    settings
        Fields of `Settings`.
    """
    limits = Limits(seconds=seconds, memory=round(memory * GIB), cpus=cpus, gpus=gpus)
    chosen = Settings(limits=limits, **settings)
    if workers < 1:
        raise UserError(f"--workers must be at least 1, not {workers}")
    if codabench is not None:
        from scoring.codabench.bundle import IMAGE, write_bundle

        if not queue:
            raise UserError(
                "--codabench needs --queue, the vhost of your own queue: workers of the public queue have the internet "
                "(docs/security.md)"
            )
        bundle = codabench if codabench.suffix == ".zip" else codabench / "hide-and-seek.zip"
        write_bundle(chosen, submissions or ["addnoise", "knn", "matching"], bundle, queue, image or IMAGE)
        print(f"bundle: {bundle}; it holds the patients' data: upload it only where these may be")
        return
    if not submissions:
        raise UserError("name the submissions: zips, folders, .py files, or methods such as addnoise and knn")
    executor = cluster(scheduler) if scheduler else lambda _: ThreadPoolExecutor(workers)
    results = play_tournament(submissions, chosen, executor)
    board = write_leaderboard(results, chosen.output_dir)
    for title, role in (("hider", "hiders"), ("seeker", "seekers")):
        print(f"\n{title:<24}  mean   95 % interval   worst")
        for row in board[role]:
            interval = "" if row["score_low"] is None else f"{row['score_low']:.3f} to {row['score_high']:.3f}"
            worst = "" if row["worst"] is None else f"{row['worst']:.3f} ({row['worst_opponent']})"
            note = "" if row["status"] == "ok" else f"  {row['status']}"
            print(f"{row['rank']:>2}. {row['name']:<20} {row['score']:6.3f}  {interval:<14}  {worst}{note}")
    print(f"\nleaderboard: {chosen.output_dir / 'leaderboard.html'}")
