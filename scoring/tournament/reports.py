"""What a tournament leaves beside its leaderboard: a report of each match, and the logs of each run."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scoring.report.arrays import ReportArrays
from scoring.report.comparison import compare
from scoring.report.match_page import write_report
from scoring.report.result import match_result, write_result
from scoring.round import Round
from scoring.store import key
from scoring.strangers import Failed, Reason, untrusted
from scoring.tournament.intake import Entrant
from scoring.tournament.settings import Context
from scoring.tournament.work import FORMAT, FinishedRun, generated_data, load_round, stored_result
from utils.files import write_text
from utils.text import printable

REPORT_SECONDS = 3600.0
_DRAWING = threading.Lock()  # matplotlib's settings are global


def write_reports(
    context: Context,
    hider: Entrant,
    hider_run: FinishedRun,
    seeker_runs: Sequence[tuple[Entrant, FinishedRun]],
    utility: dict[str, Any],
) -> dict[tuple[str, str], str]:
    """Write the reports of a hider's matches that are not there yet, as `main.py` writes one.

    Returns
    -------
    dict of (hider's, seeker's name) to str
        The matches of which none could be written, and why. What two players returned costs their report alone.
    """
    failed: dict[tuple[str, str], str] = {}
    arrays: list[ReportArrays] = []  # of the hider, made once, if a report is to be written

    def compared(round_: Round) -> ReportArrays:
        if not arrays:
            generated = generated_data(context, hider_run)
            arrays.append(compare(round_, *generated, np.random.default_rng(context.seed)))
        return arrays[0]

    for seeker, seeker_run in seeker_runs:
        try:
            with untrusted(Reason.SCORING, REPORT_SECONDS):
                _write_report(context, (hider, hider_run), (seeker, seeker_run), utility, compared)
        except Failed as error:
            failed[hider.name, seeker.name] = error.detail
    return failed


def _write_report(
    context: Context,
    hiding: tuple[Entrant, FinishedRun],
    seeking: tuple[Entrant, FinishedRun],
    utility: dict[str, Any],
    compared: Callable[[Round], ReportArrays],
) -> None:
    (hider, hider_run), (seeker, seeker_run) = hiding, seeking
    folder = match_folder(context.output, hider, seeker)
    made_from = key({"format": FORMAT, "hider": hider_run.key, "seeker": seeker_run.key, "utility": utility})
    mark = folder / "made_from"
    if mark.is_file() and mark.read_text(encoding="utf-8") == made_from:
        return
    round_ = load_round(context, hider.identity)
    answer = stored_result(context, "seeker", seeker_run.key)
    scores, arrays = answer.arrays.get("scores"), compared(round_)
    result = match_result(
        hider=hider.facts(),
        seeker=seeker.facts(),
        data=round_.facts(),
        arrays=arrays,
        labels=answer.arrays["labels"],
        scores=scores,
        settings=context.facts_of_a_match(),
        utility=utility,
        utility_skipped=None if "passed" in utility else "skipped in this tournament",
        warnings=round_.warnings,
        seconds={
            "hider": stored_result(context, "hider", hider_run.key).facts["seconds"],
            "seeker": answer.facts["seconds"],
        },
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_result(result, folder / "report.json")
    with _DRAWING:
        write_report(result, replace(arrays, scores=scores), folder / "report.html")
    write_text(mark, made_from)


def match_folder(output: Path, hider: Entrant, seeker: Entrant) -> Path:
    """Return where the report of a match is."""
    return output / "matches" / hider.name / seeker.name  # joined by a sign, two pairs could share a folder


def write_logs(
    context: Context,
    refused: Sequence[Entrant],
    hider_runs: dict[str, FinishedRun],
    seeker_runs: dict[tuple[str, str], FinishedRun],
) -> list[str]:
    """Write what each run printed, for the organiser, and which line of its own failed, for the submitter.

    Each submission has a folder of its own in `logs/submitters/`, which can be handed to its author.

    Returns
    -------
    list of str
        For the organiser's console alone: why each submission failed that did, one line each, and where to read more.
    """
    failures: dict[str, list[str]] = {}  # by the submission's folder
    runs = [(f"hider {name}", "hider", f"hider_{name}/hider.txt", run) for name, run in hider_runs.items()]
    runs += [
        (f"seeker {seeker} against {hider}", "seeker", f"seeker_{seeker}/{hider}.txt", run)
        for (hider, seeker), run in seeker_runs.items()
    ]
    for entrant in refused:
        for folder in ("organiser", "submitters"):  # nothing of it has seen the data
            text = f"refused: {printable(entrant.refused)}\n"
            write_text(context.output / "logs" / folder / f"refused_{entrant.name}" / "refused.txt", text)
    for title, kind, name, run in runs:
        stored = context.store.get(kind, run.key) if run.key else None
        facts = stored.facts if stored else {"status": run.status, "reason": run.reason}
        ended = f"{title}: {facts['status']} {facts['reason']}\n"
        parts = ("detail", "submitter_log", "stdout", "stderr")
        printed = "".join(f"\n--- {part}\n{printable(facts.get(part, ''), lines=True)}" for part in parts)
        write_text(context.output / "logs" / "organiser" / name, ended + printed)
        told = printable(facts.get("submitter_log", ""), lines=True)
        write_text(context.output / "logs" / "submitters" / name, f"{ended}\n{told}")
        if facts["status"] != "ok":
            why = printable(facts.get("detail") or facts["reason"], 400)
            line = f"failed: {title}: {why} ({context.output / 'logs' / 'organiser' / name})"
            failures.setdefault(name.partition("/")[0], []).append(line)
    return [lines[0] + (f", and {len(lines) - 1} more runs" if lines[1:] else "") for lines in failures.values()]
