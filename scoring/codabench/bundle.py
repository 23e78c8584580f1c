"""A competition for Codabench: the bundle an organiser uploads, and what its scoring program computes.

Two phases with a task each, for a submission must not see the other side's input: *hiders* get the members and are
scored by reference seekers. *Seekers* get what reference hiders made from another split. Layout and field names:
https://docs.codabench.org/latest/Organizers/Benchmark_Creation/Yaml-Structure/ (version 2).
"""

import datetime
import json
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from scoring.contract import ARRAYS, Role
from scoring.data import datasets as data_sets
from scoring.report import plots
from scoring.round import Round
from scoring.sandbox import Outcome, ProcessSandbox
from scoring.sandbox.exchange import RUNNER, read_outputs
from scoring.statistics import auroc
from scoring.strangers import Failed, Reason, untrusted
from scoring.submissions.packing import LEFT_OUT
from scoring.submissions.submission import HOME, package_files
from scoring.tournament.intake import Entrant
from scoring.tournament.schedule import prepare
from scoring.tournament.settings import Context, Settings
from scoring.tournament.work import generated_data, hide, load_round
from utils.errors import UserError
from utils.files import atomic_path

IMAGE = "codalab/codalab-legacy:py312"
FAILED = {"hider": 9.99, "seeker": 1.0}  # the worst there is, of what the first column holds
COLUMNS = (  # key, title, sorting, digits
    ("score", "Score, lower is better: re-identification (hiders), share of stays mislabelled (seekers)", "asc", 4),
    ("worst", "Re-identification by the best seeker (hiders), of the best hidden data (seekers)", "asc", 4),
    ("utility", "Utility checks passed, of all (hiders; -1: not checked)", "desc", 3),
    ("auroc", "AUROC, mean (-1: no scores)", "desc", 4),
)


@dataclass(frozen=True)
class Run:
    """One call of a submission: its input, and for the scoring the right answers."""

    role: Role
    input_dict: dict[str, Any]
    truth: np.ndarray


def write_bundle(settings: Settings, submissions: Sequence[str], output: Path, queue: str, image: str = IMAGE) -> Path:
    """Write a version-2 competition bundle.

    Parameters
    ----------
    settings : Settings
        Data, split, features and limits. `output_dir` is where the reference hiders' runs are kept.
    submissions : sequence of str
        The reference hiders and seekers, as `tournament.play_tournament` takes them.
    output : Path
        The bundle, a zip.
    queue : str
        The organiser's own queue at Codabench, whose workers have no network. On the public one, submissions with
        patients' data in their hands have the internet.
    image : str
        The Docker image Codabench runs submissions and scoring in.

    Returns
    -------
    Path
        The zip.

    Raises
    ------
    UserError
        For bad settings, data or submissions, or a reference hider that fails.
    """
    prepared = prepare(settings, submissions)
    context = prepared.context
    # From the organiser's key, one split for the first phase and one for each reference hider of the second: who saw
    # one of them knows nothing of the others.
    seeking: dict[str, Run] = {}
    for number, hider in enumerate(prepared.hiders):
        hider = replace(hider, identity=f"codabench, second phase, {hider.identity}")
        run = hide(context, hider)
        if run.status != "ok":
            raise UserError(f"the reference hider {hider.name} {run.reason}; no bundle was written")
        round_ = load_round(context, hider.identity)
        seeking[f"run{number}"] = Run("seeker", round_.seeker_input(*generated_data(context, run)), round_.truth)
    hiding = load_round(context, "codabench, first phase")
    folder = Path(tempfile.mkdtemp())
    try:
        _programs(folder)
        _hider_task(folder / "hider_task", context, hiding, prepared.seekers)
        _seeker_task(folder / "seeker_task", seeking)
        _pages(folder, settings, prepared.data_set, image, queue)
        for role, entrants in (("hider", prepared.hiders), ("seeker", prepared.seekers)):
            shutil.copytree(prepared.context.output / "submissions" / entrants[0].digest, folder / "solutions" / role)
        with atomic_path(output) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder).as_posix())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return output


def score(reference: Path, results: Path) -> dict[str, float]:
    """Score what the ingestion program kept: Codabench's `input/ref` and `input/res`.

    Returns
    -------
    dict of str to float
        A number for each of `COLUMNS`. What a failed run gets where it failed.
    """
    facts = json.loads((reference / "task.json").read_text(encoding="utf-8"))
    with np.load(reference / "data.npz", allow_pickle=False) as arrays:
        known = dict(arrays)
    if facts["role"] == "hider":
        return _score_hider(facts, known["data"], known["padding_mask"], known["truth"], reference, results)
    return _score_seeker(known, results)


def _score_hider(
    facts: dict[str, Any], data: np.ndarray, mask: np.ndarray, truth: np.ndarray, reference: Path, results: Path
) -> dict[str, float]:
    members = np.array(facts["members"])
    given = {"data": data[members], "padding_mask": mask[members]}
    nothing = {"score": FAILED["hider"], "worst": FAILED["hider"], "utility": 0.0, "auroc": -1.0}
    try:
        with untrusted(Reason.FILE):
            outputs = read_outputs(results / "members.npz", "hider", given)
    except Failed:
        return nothing
    if outputs.get("rescore"):
        return nothing
    generated, padding = outputs["generated_data"], outputs["padding_mask"]
    utility = _utility(facts, data, mask, members, generated, padding)
    arrays = {
        "generated_data": generated,
        "generated_data_padding_mask": padding,
        "enlarged_data": data,
        "enlarged_data_padding_mask": mask,
    }
    scores, areas = [], []
    for name in facts["opponents"]:
        answer: Outcome = ProcessSandbox().run(reference / "seekers" / name, "seeker", arrays, facts["seeker_seed"])
        if answer.status == "ok":
            scores.append(float(np.mean(answer.outputs["labels"] == truth)))
            areas += [] if answer.outputs["scores"] is None else [auroc(truth, answer.outputs["scores"])[0]]
    if not scores:
        return nothing | {"utility": utility}
    mean_area = float(np.mean(areas)) if areas else -1.0
    return {"score": float(np.mean(scores)), "worst": max(scores), "utility": utility, "auroc": mean_area}


def _utility(
    facts: dict[str, Any],
    data: np.ndarray,
    mask: np.ndarray,
    members: np.ndarray,
    generated: np.ndarray,
    padding: np.ndarray | None,
) -> float:
    """Share of the utility checks passed. -1 where they cannot be run."""
    from scoring.utility.challenge import check_utility
    from utils.data_preprocess import preprocess_imputed
    from utils.misc import tf115_found

    if not tf115_found or not facts["checked"]:
        return -1.0
    others = np.setdiff1d(np.arange(len(data)), members)
    verdict = check_utility(
        preprocess_imputed(data[members], mask[members]),
        preprocess_imputed(generated, padding),
        preprocess_imputed(data[others], mask[others]),
        features=facts["features"],
        names=facts["feature_names"],
        seed=facts["seed"],
        feature_prediction=bool(facts["features"]),
        one_step_ahead=not facts["skip_osa"],
        auroc_threshold=facts["auroc_threshold"],
        rmse_threshold=facts["rmse_threshold"],
    )
    checks = [row["passed"] for row in verdict["feature_prediction"] or []]
    checks += [verdict["one_step_ahead"]["passed"]] if verdict["one_step_ahead"] else []
    checks = [passed for passed in checks if passed is not None]  # a void check says nothing
    return sum(checks) / len(checks) if checks else -1.0


def _score_seeker(truths: dict[str, np.ndarray], results: Path) -> dict[str, float]:
    scores, areas = [], []
    for name, truth in truths.items():
        try:
            with untrusted(Reason.FILE):
                outputs = read_outputs(results / f"{name}.npz", "seeker", {"enlarged_data": truth})  # its length alone
        except Failed:
            scores.append(1 - FAILED["seeker"])
            continue
        scores.append(float(np.mean(outputs["labels"] == truth)))
        areas += [] if outputs["scores"] is None else [auroc(truth, outputs["scores"])[0]]
    mean_area = float(np.mean(areas)) if areas else -1.0
    return {"score": 1 - float(np.mean(scores)), "worst": min(scores), "utility": -1.0, "auroc": mean_area}


# ------------------------------------------------------------------------------------------------------- the bundle


def _programs(folder: Path) -> None:
    here = Path(__file__).parent
    ingestion, scoring = folder / "ingestion_program", folder / "scoring_program"
    ingestion.mkdir()
    scoring.mkdir()
    shutil.copyfile(here / "program" / "ingestion.py", ingestion / "ingestion.py")
    shutil.copyfile(RUNNER, ingestion / "runner.py")
    shutil.copyfile(here / "program" / "score.py", scoring / "score.py")
    clutter = shutil.ignore_patterns("__pycache__", ".*")
    for package in ("scoring", "utils"):
        shutil.copytree(HOME / package, scoring / package, ignore=clutter)
    command = "python3 /app/program/ingestion.py /app/input_data/ /app/output/ /app/program /app/ingested_program"
    (ingestion / "metadata.yaml").write_text(f"command: {command}\n", encoding="utf-8")
    command = "python3 /app/program/score.py /app/input/ /app/output/"
    (scoring / "metadata.yaml").write_text(f"command: {command}\n", encoding="utf-8")


def _hider_task(folder: Path, context: Context, round_: Round, seekers: Sequence[Entrant]) -> None:
    _write_run(folder / "input_data" / "members", "hider", round_.hider_input())
    _write_reference(folder / "reference_data", context, round_, [seeker.name for seeker in seekers])
    for seeker in seekers:
        source = context.output / "submissions" / seeker.digest
        shutil.copytree(source, folder / "reference_data" / "seekers" / seeker.name)


def _seeker_task(folder: Path, runs: dict[str, Run]) -> None:
    for name, run in runs.items():
        _write_run(folder / "input_data" / name, run.role, run.input_dict)
    reference = folder / "reference_data"
    reference.mkdir(parents=True)
    np.savez(reference / "data.npz", **{name: run.truth for name, run in runs.items()})  # type: ignore[arg-type]
    (reference / "task.json").write_text(json.dumps({"role": "seeker"}), encoding="utf-8")


def _write_run(folder: Path, role: Role, input_dict: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    arrays: dict[str, np.ndarray | None] = {name: input_dict[name] for name in ARRAYS[role]}
    present = [name for name, array in arrays.items() if array is not None]
    for name in present:
        np.save(folder / f"{name}.npy", arrays[name], allow_pickle=False)  # type: ignore[arg-type]
    absent = [name for name in arrays if name not in present]
    request = {"role": role, "seed": input_dict["seed"], "parameters": None, "arrays": present, "absent": absent}
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")


def _write_reference(folder: Path, context: Context, round_: Round, opponents: list[str]) -> None:
    folder.mkdir(parents=True)
    np.savez(folder / "data.npz", data=round_.data, padding_mask=round_.padding_mask, truth=round_.truth)
    facts = {
        "role": "hider",
        "seed": context.seed,
        "seeker_seed": round_.seeker_seed,
        "members": round_.members.tolist(),
        "opponents": opponents,
        "features": list(context.features),
        "feature_names": round_.feature_names,
        "checked": bool(context.utility_seeds),
        "skip_osa": context.skip_osa,
        "auroc_threshold": context.auroc_threshold,
        "rmse_threshold": context.rmse_threshold,
    }
    (folder / "task.json").write_text(json.dumps(facts), encoding="utf-8")


def _pages(folder: Path, settings: Settings, data_set: data_sets.DataSet, image: str, queue: str) -> None:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=False,  # noqa: S701 (YAML and Markdown; texts of ours, and JSON-quoted)
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    today = datetime.datetime.now(datetime.timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    start, middle, end = (f"{today + datetime.timedelta(days=days)}" for days in (1, 61, 121))
    values = {
        "title": "Hide-and-Seek privacy challenge",
        "image": image,
        "queue": queue,
        "start": start,
        "middle": middle,
        "end": end,
        "seconds": round(settings.limits.seconds),
        "columns": COLUMNS,
        "stays": len(data_set.data),
        "time_points": data_set.data.shape[1],
        "features": data_set.feature_names,
    }
    (folder / "competition.yaml").write_text(environment.get_template("competition.yaml").render(values))
    (folder / "pages").mkdir()
    for name in ("overview", "data", "terms"):
        (folder / "pages" / f"{name}.md").write_text(environment.get_template(f"{name}.md").render(values))
    shutil.copyfile(HOME / "docs" / "challenge.md", folder / "pages" / "rules.md")
    (folder / "logo.png").write_bytes(plots.logo())
    kit = folder / "starting_kit"
    kit.mkdir()
    shutil.copyfile(HOME / "docs" / "challenge.md", kit / "rules.md")
    (kit / "README.md").write_text(environment.get_template("starting_kit.md").render(values))
    for role, name in (("hider", "addnoise"), ("seeker", "knn")):
        shutil.copyfile(HOME / f"{role}_{name}.py", kit / f"{role}.py")
    for name, path in package_files():
        if path.suffix not in LEFT_OUT:
            (kit / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, kit / name)
