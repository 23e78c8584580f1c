"""The command line: `python -m deid COMMAND --help`."""

import argparse
import hashlib
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # else TensorFlow prints a notice whenever it is imported
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from deid import corpus, evaluation, files
from deid.settings import Epochs, Settings
from utils.errors import UserError

if TYPE_CHECKING:
    from deid.embeddings import Embeddings


def _folder_out(path: Path) -> Path:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path}: exists. Name a new or empty folder")
    return path


def _file_out(path: Path) -> Path:
    if path.exists():
        raise UserError(f"{path}: exists. Name a new file")
    if not path.resolve().parent.is_dir():
        raise UserError(f"{path.parent}: no such folder")
    return path


def _notes(path: Path, annotated: bool, repairs: corpus.Repairs | None = None) -> list[corpus.Note]:
    repairs = corpus.Repairs() if repairs is None else repairs
    notes = corpus.read_notes(path, annotated, repairs)
    if str(repairs):
        print(f"{path}: {repairs}", file=sys.stderr)
    return notes


def _embeddings(
    path: Path | None, notes: Sequence[corpus.Note], size: int, seed: int, kept: Path | None
) -> "Embeddings":
    """Read embeddings, or train them on the notes and keep them at `kept` until the training is done."""
    from deid.embeddings import Embeddings, read_embeddings, train_embeddings
    from deid.tokens import sentences

    if path is not None:
        return read_embeddings(path)
    texts = [s.words for note in notes for s in sentences(note)]
    made_from = hashlib.sha256(json.dumps([texts, size, seed]).encode()).hexdigest()
    if kept is not None and kept.exists():
        meta, arrays = files.read_archive(kept, "embeddings")
        if meta.get("made from") != made_from:
            raise UserError(f"{kept.parent}: of a training with other notes or settings. Remove it to start anew")
        return Embeddings.from_arrays(arrays)
    print("Training fastText vectors on the notes")
    made = train_embeddings(texts, size, seed)
    if kept is not None:
        files.write_archive(kept, "embeddings", {"made from": made_from}, made.arrays())
    return made


def train(args: argparse.Namespace) -> None:
    """Train a model. A run that was stopped goes on from its checkpoint."""
    from deid.encoding import label_set
    from deid.pipeline import train_model
    from deid.storage import save_model
    from deid.training import discard

    out = _file_out(args.out)
    if not args.epochs[0]:
        raise UserError("--epochs: STABLE must be 1 or more, because nothing is learned without it")
    of_training, of_validation = corpus.Repairs(), corpus.Repairs()
    training, validation = _notes(args.train, True, of_training), _notes(args.validation, True, of_validation)
    settings = Settings(
        labels=tuple(label_set([*training, *validation])),
        elements=of_validation.elements | of_training.elements,
        representation=args.representation,
        size=args.size,
        neighbors=args.neighbors,
        procedure=args.procedure,
        width=args.width,
        adversary_width=args.adversary_width,
        adversary_weight=args.adversary_weight,
        information_weight=args.information_weight,
        seed=args.seed,
    )
    checkpoint = out.with_name(out.name + ".checkpoint")
    if checkpoint.exists():
        print(f"Going on from {checkpoint}")
    embeddings = _embeddings(args.embeddings, training, args.embedding_size, args.seed, checkpoint / "embeddings.npz")
    epochs = Epochs(*args.epochs)
    model = train_model(settings, embeddings, training, validation, epochs, checkpoint)
    save_model(out, model)
    discard(checkpoint)
    print(f"Wrote {out}")


def represent(args: argparse.Namespace) -> None:
    """Write what a hospital sends."""
    from deid import pipeline, storage

    out = _file_out(args.out)
    model = storage.load_model(args.model)
    shared = pipeline.represent(model, _notes(args.notes, True))
    storage.save_shared(out, shared)
    print(f"Wrote {out}: {len(shared.lengths)} sentences, {len(shared.labels)} tokens")
    if model.settings.representation == "raw":
        print("These are raw embeddings: they tell every word. Do not send them.", file=sys.stderr)


def retrain(args: argparse.Namespace) -> None:
    """Train a new de-identifier on representations received."""
    from deid import pipeline, storage

    out = _file_out(args.out)
    model = storage.load_model(args.model)
    received = [storage.load_shared(path, model) for path in args.received]
    storage.save_model(out, pipeline.retrain(model, received, args.epochs, args.seed))
    print(f"Wrote {out}")


def label(args: argparse.Namespace) -> None:
    """Find PHI and write the notes with it marked, redacted or replaced."""
    from deid import pipeline, storage
    from deid.pseudonyms import pseudonymize

    out = _folder_out(args.out)
    model = storage.load_model(args.model)
    found = pipeline.label(model, _notes(args.notes, False))
    for note in found:
        corpus.write_i2b2(out / "xml" / f"{note.name}.xml", note, model.settings.elements)
        corpus.write_brat(out / "brat", note)
        if args.redact:
            files.write_text(out / "redacted" / f"{note.name}.txt", corpus.redact(note).text)
    if args.pseudonymize:
        for note in pseudonymize(found, model.embeddings, args.neighbors, np.random.default_rng()):
            files.write_text(out / "pseudonymized" / f"{note.name}.txt", note.text)
    print(f"Wrote {len(found)} notes to {out}: {sum(len(note.spans or ()) for note in found)} PHI found")


def pseudonymize(args: argparse.Namespace) -> None:
    """Replace annotated PHI by neighbours."""
    from deid import pseudonyms, storage

    out, repairs = _folder_out(args.out), corpus.Repairs()
    notes = _notes(args.notes, True, repairs)
    if args.model is not None:
        embeddings = storage.load_model(args.model).embeddings
    else:
        embeddings = _embeddings(args.embeddings, notes, 100, args.seed or 0, None)
    random = np.random.default_rng(args.seed)
    for note in pseudonyms.pseudonymize(notes, embeddings, args.neighbors, random):
        corpus.write_i2b2(out / "xml" / f"{note.name}.xml", note, repairs.elements)
        corpus.write_brat(out / "brat", note)
    print(f"Wrote {len(notes)} notes to {out}")


def evaluate(args: argparse.Namespace) -> None:
    """Print precision, recall and F1."""
    print(evaluation.as_text(evaluation.evaluate(_notes(args.gold, True), _notes(args.predicted, True))))


def audit(args: argparse.Namespace) -> None:
    """Attack a representation and write what came of it."""
    from deid import report, storage
    from deid.attacks.fitting import Effort
    from deid.audit import audit as attack

    out = _file_out(args.out)
    model = storage.load_model(args.model)
    targets = _notes(args.notes, True)
    if args.attacker is not None:
        attacker = _notes(args.attacker, True)
    else:  # three notes in five are the attacker's own
        order = np.random.default_rng(args.seed).permutation(len(targets))
        cut = max(1, round(0.6 * len(order)))
        attacker, targets = [targets[i] for i in order[:cut]], [targets[i] for i in order[cut:]]
    result = attack(model, attacker, targets, Effort(args.seed, args.epochs, args.width))
    report.write_report(out, result)
    for row in report.rows(result):
        told = f"; network trained {row['learned']}" if row["learned"] else ""
        print(f"{row['attack']}, {row['figure']}: {row['private']}; raw {row['raw']}; chance {row['chance']}{told}")
    print(f"Wrote {out}")


def _count(text: str, least: int = 1) -> int:
    value = int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f"must be {least} or more")
    return value


def _epochs(text: str) -> int:
    return _count(text, 0)


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"must be 0 to {2**31 - 1}")
    return value


def _weight(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(prog="python -m deid", description="Private representations of medical notes.")
    top.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(dest="command", required=True)

    def command(function, name: str) -> argparse.ArgumentParser:  # type: ignore[no-untyped-def]
        made = commands.add_parser(name, help=(function.__doc__ or "").splitlines()[0], description=function.__doc__)
        made.set_defaults(function=function)
        made.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        return made

    sub = command(train, "train")
    sub.add_argument("--train", type=Path, required=True, metavar="DIR", help="annotated notes to train on")
    sub.add_argument("--validation", type=Path, required=True, metavar="DIR", help="annotated notes for early stopping")
    sub.add_argument("-o", "--out", type=Path, required=True, metavar="MODEL.npz")
    sub.add_argument(
        "--representation", choices=("lstm", "dense", "raw"), default="lstm", help="raw: baseline, hides nothing"
    )
    sub.add_argument(
        "--size", type=_count, default=Settings.size, help="dimensions of the representation (default %(default)s)"
    )
    sub.add_argument(
        "--neighbors",
        type=_count,
        default=Settings.neighbors,
        metavar="N",
        help="neighbours of a PHI token (default %(default)s)",
    )
    sub.add_argument("--procedure", choices=("alternating", "dann"), default=Settings.procedure)
    sub.add_argument("--embeddings", type=Path, metavar="FILE", help="word2vec or GloVe text, or fastText .bin")
    sub.add_argument("--embedding-size", type=_count, default=300, help="of vectors trained on the notes (default 300)")
    sub.add_argument(
        "--epochs",
        type=_epochs,
        nargs=4,
        default=astuple(Epochs()),
        metavar=("STABLE", "ADVERSARY", "JOINT", "SETTLE"),
        help="at most, of each phase (default %(default)s, published: 20 20 40 0)",
    )
    sub.add_argument(
        "--width", type=_count, default=Settings.width, help="LSTM units a direction (default %(default)s)"
    )
    sub.add_argument(
        "--adversary-width", type=_count, default=Settings.adversary_width, help="published: 300 (default %(default)s)"
    )
    sub.add_argument(
        "--adversary-weight",
        type=_weight,
        default=Settings.adversary_weight,
        metavar="LAMBDA",
        help="published: 1 (default %(default)s)",
    )
    sub.add_argument(
        "--information-weight",
        type=_weight,
        default=Settings.information_weight,
        metavar="BETA",
        help="of the bound on what a sentence's vectors tell, in nats (default %(default)s, published: 0)",
    )
    sub.add_argument("--seed", type=_seed, default=Settings.seed)

    sub = command(represent, "represent")
    sub.add_argument("--model", type=Path, required=True)
    sub.add_argument("--in", dest="notes", type=Path, required=True, metavar="DIR")
    sub.add_argument("-o", "--out", type=Path, required=True, metavar="FILE.npz")

    sub = command(retrain, "retrain")
    sub.add_argument("--in", dest="received", type=Path, required=True, nargs="+", metavar="FILE.npz")
    sub.add_argument("--model", type=Path, required=True)
    sub.add_argument("-o", "--out", type=Path, required=True, metavar="MODEL2.npz")
    sub.add_argument("--epochs", type=_count, default=20)
    sub.add_argument("--seed", type=_seed, default=0)

    sub = command(label, "label")
    sub.add_argument("--model", type=Path, required=True)
    sub.add_argument("--in", dest="notes", type=Path, required=True, metavar="DIR")
    sub.add_argument("-o", "--out", type=Path, required=True, metavar="DIR")
    sub.add_argument("--redact", action="store_true", help="also write the text with [TYPE] in place of PHI")
    sub.add_argument("--pseudonymize", action="store_true", help="also write the text with PHI replaced")
    sub.add_argument("--neighbors", type=_count, default=100, metavar="N")

    sub = command(pseudonymize, "pseudonymize")
    sub.add_argument("--in", dest="notes", type=Path, required=True, metavar="DIR")
    sub.add_argument("-o", "--out", type=Path, required=True, metavar="DIR")
    group = sub.add_mutually_exclusive_group()
    group.add_argument("--model", type=Path, help="take its embeddings")
    group.add_argument("--embeddings", type=Path, metavar="FILE")
    sub.add_argument("--neighbors", type=_count, default=100, metavar="N")
    sub.add_argument("--seed", type=_seed, help="repeatable replacements, for tests and not for release")

    sub = command(evaluate, "evaluate")
    sub.add_argument("--gold", type=Path, required=True, metavar="DIR")
    sub.add_argument("--predicted", type=Path, required=True, metavar="DIR")

    sub = command(audit, "audit")
    sub.add_argument("--model", type=Path, required=True)
    sub.add_argument("--in", dest="notes", type=Path, required=True, metavar="DIR", help="notes attacked")
    sub.add_argument("--attacker", type=Path, metavar="DIR", help="the attacker's notes (default: 60 %% of --in)")
    sub.add_argument("-o", "--out", type=Path, required=True, metavar="report.html")
    sub.add_argument("--epochs", type=_count, default=100, help="at most, for each attacker (default 100)")
    sub.add_argument("--width", type=_count, default=300, help="of the adversaries' LSTMs (default 300)")
    sub.add_argument("--seed", type=_seed, default=0)
    return top


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. A user's mistake ends in one line and exit code 2."""
    args = parser().parse_args(arguments)
    try:
        args.function(args)
    except (UserError, OSError) as error:
        if args.debug:
            raise
        print(f"deid: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except ImportError as error:
        if args.debug:
            raise
        print(f"deid: {error.name} is not installed. Run: pip install -r requirements-deid.txt", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("deid: stopped", file=sys.stderr)
        sys.exit(130)
