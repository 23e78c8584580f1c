"""What a tournament leaves beside its leaderboard: a report of each match, and the logs of each run."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scoring.files import write_text
from scoring.report.comparison import compare
from scoring.report.match_page import write_report
from scoring.report.result import match_result, write_result
from scoring.store import key
from scoring.tournament.intake import Entrant
from scoring.tournament.settings import Context
from scoring.tournament.work import FORMAT, FinishedRun, generated_data, load_round, stored_result

_DRAWING = threading.Lock()  # matplotlib's settings are global


def write_reports(
    context: Context,
    hider: Entrant,
    hider_run: FinishedRun,
    seeker_runs: Sequence[tuple[Entrant, FinishedRun]],
    utility: dict[str, Any] | None,
) -> None:
    """Write the reports of a hider's matches that are not there yet, as `main.py` writes one."""
    round_ = load_round(context)
    arrays = None
    for seeker, seeker_run in seeker_runs:
        folder = match_folder(context.output, hider, seeker)
        made_from = key({"format": FORMAT, "hider": hider_run.key, "seeker": seeker_run.key, "utility": utility})
        mark = folder / "made_from"
        if mark.is_file() and mark.read_text(encoding="utf-8") == made_from:
            continue
        if arrays is None:
            rng = np.random.default_rng(context.seed)
            arrays = compare(round_, *generated_data(context, hider_run), rng)
        answer = stored_result(context, "seeker", seeker_run.key)
        scores = answer.arrays.get("scores")
        result = match_result(
            hider=hider.facts(),
            seeker=seeker.facts(),
            data=round_.facts(),
            arrays=arrays,
            labels=answer.arrays["labels"],
            scores=scores,
            settings=context.facts_of_a_match(),
            utility=utility,
            utility_skipped=None if utility else "skipped in this tournament",
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
    return output / "matches" / f"{hider.name}-{seeker.name}"


def write_logs(
    context: Context,
    hider_runs: dict[str, FinishedRun],
    seeker_runs: dict[tuple[str, str], FinishedRun],
) -> None:
    """Write what each run printed, for the organiser, and its redacted traceback, for the submitter."""
    runs = [(f"hider {name}", "hider", run) for name, run in hider_runs.items()]
    runs += [(f"seeker {seeker} against {hider}", "seeker", run) for (hider, seeker), run in seeker_runs.items()]
    for title, kind, run in runs:
        stored = context.store.get(kind, run.key) if run.key else None
        facts = stored.facts if stored else {"status": run.status, "reason": run.reason}
        name = title.replace(" ", "_") + ".txt"
        ended = f"{title}: {facts['status']} {facts['reason']}\n"
        printed = "".join(f"\n--- {part}\n{facts.get(part, '')}" for part in ("submitter_log", "stdout", "stderr"))
        write_text(context.output / "logs" / "organiser" / name, ended + printed)
        write_text(context.output / "logs" / "submitters" / name, f"{ended}\n{facts.get('submitter_log', '')}")
