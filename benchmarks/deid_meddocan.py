"""The text track on MEDDOCAN: what the notes are still good for and what they tell, from the same models.

    python benchmarks/deid_meddocan.py DATA --work WORK [--pieces raw lstm ...] [--audit lstm ...] [--apart lstm ...]

DATA holds MEDDOCAN's `train/` and `dev/` (i2b2 XML). Models train on 450 notes of `train/`, the other 50 stop them
early, `dev/` is only reported. Each finished piece is one JSON in WORK. A run goes on where the last one stopped. At
its end it puts what is there into docs/deid.md between its two marks, and draws the curves over N and size. The curves
are of the "few" models, which are trained on 75 notes.

`--audit` runs every attack, by an attacker who has half of the training notes. `--apart` runs only the fresh
adversaries, by one who has the validation notes and half of `dev/`, against the other half. Replacements
are always drawn from `NEIGHBORS` neighbours, so that models trained with different N are attacked alike.
"""

import argparse
import io
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf

from deid import corpus, evaluation, files, pipeline, report, storage
from deid.attacks.fitting import Channel, Effort
from deid.attacks.tell_apart import tell_apart
from deid.audit import audit
from deid.corpus import Note
from deid.embeddings import Embeddings, train_embeddings
from deid.encoding import encode, label_set
from deid.model import Model
from deid.settings import Epochs, Settings
from deid.tokens import sentences
from deid.training import discard

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "deid.md"
MARKS = "<!-- figures: benchmarks/deid_meddocan.py -->\n", "<!-- end of figures -->\n"
VALIDATION = 50  # notes
ATTACKER = 250  # of the training notes, the attacker's
NEIGHBORS = 100
FEW = 75  # notes that the models of the curves are trained on, to have many in the time of one
CURVES = {
    "N, neighbours a replacement is drawn from": {10: "few-n10", 100: "few", 500: "few-n500"},
    "size of the representation": {50: "few", 100: "few-size100", 300: "few-size300"},
}
PIECES: dict[str, dict[str, Any]] = {
    "raw": {"representation": "raw"},
    "lstm": {},
    "lstm-tight": {"information_weight": 0.04},
    "lstm-open": {"information_weight": 0.0},
    "dense": {"representation": "dense"},
    "dann": {"procedure": "dann"},
    "few": {},
    "few-n10": {"neighbors": 10},
    "few-n500": {"neighbors": 500},
    "few-size100": {"size": 100},
    "few-size300": {"size": 300},
}


@dataclass(frozen=True)
class Data:
    """MEDDOCAN split for this benchmark, the embeddings, and what every model's settings share."""

    fit: list[Note]
    validation: list[Note]
    dev: list[Note]
    embeddings: Embeddings
    settings: Settings


def read_data(folder: Path, work: Path) -> Data:
    """Read the notes and train the embeddings, or take those trained before."""
    repairs = corpus.Repairs()
    notes, dev = corpus.read_notes(folder / "train", True, repairs), corpus.read_notes(folder / "dev", True)
    order = np.random.default_rng(0).permutation(len(notes))
    validation, fit = ([notes[i] for i in part] for part in (order[:VALIDATION], order[VALIDATION:]))
    kept = work / "embeddings.npz"
    if not kept.exists():
        made = train_embeddings([s.words for note in fit for s in sentences(note)], 300, 0)
        files.write_archive(kept, "embeddings", {}, made.arrays())
    settings = Settings(tuple(label_set(notes)), repairs.elements)
    return Data(fit, validation, dev, Embeddings.from_arrays(files.read_archive(kept, "embeddings")[1]), settings)


def train(name: str, data: Data, work: Path) -> None:
    """Train a piece's model and keep it and the seconds that took."""
    settings = replace(data.settings, **PIECES[name])
    fit = data.fit[:FEW] if name.startswith("few") else data.fit
    checkpoint = work / f"{name}.checkpoint"
    start = time.perf_counter()
    model = pipeline.train_model(settings, data.embeddings, fit, data.validation, Epochs(), checkpoint)
    seconds = time.perf_counter() - start
    storage.save_model(work / f"{name}.npz", model)
    told = {k: v for k, v in asdict(settings).items() if k not in ("labels", "elements")}
    keep(work / f"{name}.training.json", {"settings": told, "epochs": asdict(Epochs()), "seconds": seconds})
    discard(checkpoint)


def measure(name: str, data: Data, work: Path) -> None:
    """Label `dev/` with a piece's model and keep how well and how fast."""
    model = storage.load_model(work / f"{name}.npz")
    pipeline.label(model, data.dev[:3])  # compiles
    start = time.perf_counter()
    found = pipeline.label(model, data.dev)
    speed = 60 * len(data.dev) / (time.perf_counter() - start)
    result = evaluation.evaluate(data.dev, found)
    figures = {name: counts.f1 for name, counts in vars(result).items() if isinstance(counts, evaluation.Counts)}
    keep(
        work / f"{name}.json",
        {
            "notes a minute": speed,
            "f1": figures,
            "precision": result.entities.precision,
            "recall": result.entities.recall,
            "interval": result.entity_interval,
            "by type": {phi: [entity.f1, entity.there] for phi, (entity, _) in result.by_type.items()},
        },
    )


def targets_of(model: Model, data: Data) -> list[Note]:
    """Return the notes of `dev/` whose labels the model knows."""
    known = {label[2:] for label in model.settings.labels}
    return [note for note in data.dev if all(span.type in known for span in note.spans or ())]


def attack_apart(name: str, data: Data, work: Path, epochs: int) -> None:
    """Let fresh adversaries alone attack a piece's model, trained on notes that the model was not: half of `dev/`."""
    model = storage.load_model(work / f"{name}.npz")
    random = np.random.default_rng(0)
    dev = targets_of(model, data)
    fit, targets = (
        encode(notes, model.embeddings, model.settings.labels, NEIGHBORS, random)
        for notes in (data.validation + dev[::2], dev[1::2])
    )
    channel = Channel(tf.function(model.representation, reduce_retracing=True), model.size)
    result = tell_apart(channel, fit, targets, Effort(0, epochs, Settings.adversary_width))
    rate = result.rates["both"]
    keep(work / f"{name}.apart.json", {"both": [rate.value, rate.low, rate.high], "learned": result.learned})


def attack(name: str, data: Data, work: Path, epochs: int) -> None:
    """Audit a piece's model: `dev/` attacked by someone who has half of the training notes."""
    model = storage.load_model(work / f"{name}.npz")
    targets, attacker = targets_of(model, data), data.fit[:ATTACKER]
    start = time.perf_counter()
    result = audit(model, attacker, targets, Effort(0, epochs, Settings.adversary_width))
    report.write_report(work / f"{name}.html", result)
    minutes = (time.perf_counter() - start) / 60
    keep(work / f"{name}.audit.json", {"rows": report.rows(result), "settings": result.settings, "minutes": minutes})


def keep(path: Path, content: dict[str, Any]) -> None:
    """Write a finished piece."""
    files.write_text(path, json.dumps(content, indent=1) + "\n")


def figures(work: Path) -> str:
    """Return all finished pieces as Markdown."""
    lines = [
        "| model | strict entity F1 (95 %) | precision | recall | token F1, PHI or not | training | labelled |",
        "|---|---|---|---|---|---|---|",
    ]
    found = {
        name: json.loads((work / f"{name}.json").read_text()) | json.loads((work / f"{name}.training.json").read_text())
        for name in PIECES
        if (work / f"{name}.json").exists() and not name.startswith("few")
    }
    for name, piece in found.items():
        low, high = piece["interval"]
        lines.append(
            f"| {name} | {piece['f1']['entities']:.4f} ({low:.4f} to {high:.4f}) | {piece['precision']:.4f} | "
            f"{piece['recall']:.4f} | {piece['f1']['binary']:.4f} | {piece['seconds'] / 60:.0f} min | "
            f"{piece['notes a minute']:.0f} notes / min |"
        )
    apart = {
        name: json.loads((work / f"{name}.apart.json").read_text())
        for name in PIECES
        if (work / f"{name}.apart.json").exists()
    }
    if apart:
        lines += [
            "",
            "| model | strict entity F1 (95 %) | fresh adversaries (95 %) | network trained |",
            "|---|---|---|---|",
        ]
    for name, made in apart.items():
        piece = json.loads((work / f"{name}.json").read_text())
        scored = "{:.4f} ({:.4f} to {:.4f})".format(piece["f1"]["entities"], *piece["interval"])
        told = "{:.4f} ({:.4f} to {:.4f})".format(*made["both"])
        lines.append(f"| {name} | {scored} | {told} | {made['learned'][0]} of {made['learned'][1]} epochs |")
    for name in found:
        path = work / f"{name}.audit.json"
        if path.exists():
            result = json.loads(path.read_text())
            told = "; ".join(f"{key} {value}" for key, value in result["settings"].items())
            lines += ["", f"Audit of `{name}` ({told}; {result['minutes']:.0f} min):", ""]
            lines += [
                "| attack | representation (95 %) | raw embeddings (95 %) | chance or guess | network trained |",
                "|---|---|---|---|---|",
            ]
            lines += [
                f"| {row['attack']}: {row['figure']} | {row['private']} | {row['raw']} | {row['chance']} "
                f"| {row['learned']} |"
                for row in result["rows"]
            ]
    return "\n".join(lines) + "\n"


def draw_curves(work: Path) -> None:
    """Plot F1 and the fresh adversaries' accuracy against N and size into docs/deid-curves.svg."""
    figure = Figure(figsize=(8, 5.4), layout="constrained")
    panels = figure.subplots(2, len(CURVES), sharey="row", sharex="col")
    for column, (name, pieces) in enumerate(CURVES.items()):
        for row, (suffix, label) in enumerate((("", "strict entity F1"), (".apart", "fresh adversaries' accuracy"))):
            axes = panels[row, column]
            found = {
                value: json.loads((work / f"{piece}{suffix}.json").read_text())
                for value, piece in pieces.items()
                if (work / f"{piece}{suffix}.json").exists()
            }
            points = [
                (value, made["f1"]["entities"], *made["interval"]) if row == 0 else (value, *made["both"])
                for value, made in found.items()
            ]
            if points:
                x, y, low, high = np.array(points).T
                axes.errorbar(
                    x, y, yerr=[y - low, high - y], fmt="o-", capsize=3, color="#2c6fbb", label="representation"
                )
            if row == 1:
                axes.axhline(0.5, color="#888888", linestyle=":", label="chance")
                axes.set_xlabel(name)
                axes.set_ylim(0.45, 0.65)
            axes.set_xscale("log")
            axes.set_xticks(list(pieces), [str(value) for value in pieces])
            axes.minorticks_off()
            axes.set_xlim(min(pieces) / 1.5, max(pieces) * 1.5)
            if column == 0:
                axes.set_ylabel(label)
                if row == 1:
                    axes.legend(loc="upper right")
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    files.write_text(DOCUMENT.with_name("deid-curves.svg"), drawn.getvalue())


def write_document(work: Path) -> None:
    """Put the figures into docs/deid.md."""
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    files.write_text(DOCUMENT, before + MARKS[0] + figures(work) + MARKS[1] + after)


def main() -> None:
    """Run what is missing of the pieces asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--pieces", nargs="*", choices=PIECES, default=list(PIECES))
    parser.add_argument("--audit", nargs="*", choices=PIECES, default=["lstm"])
    parser.add_argument("--apart", nargs="*", choices=PIECES, default=[])
    parser.add_argument("--audit-epochs", type=int, default=20)
    args = parser.parse_args()
    data = read_data(args.data, args.work)
    for name in args.pieces:
        if not (args.work / f"{name}.training.json").exists():
            print("train", name, flush=True)
            train(name, data, args.work)
        if not (args.work / f"{name}.json").exists():
            print("measure", name, flush=True)
            measure(name, data, args.work)
    for name in args.audit:
        if not (args.work / f"{name}.audit.json").exists():
            print("audit", name, flush=True)
            attack(name, data, args.work, args.audit_epochs)
    for name in args.apart:
        if not (args.work / f"{name}.apart.json").exists():
            print("tell apart", name, flush=True)
            attack_apart(name, data, args.work, args.audit_epochs)
    write_document(args.work)
    draw_curves(args.work)


if __name__ == "__main__":
    main()
