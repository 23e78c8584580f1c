"""What the commands do, as functions: train, represent, retrain, label."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deid.corpus import Note
from deid.embeddings import Embeddings
from deid.encoding import Encoded, batches, encode
from deid.model import Model
from deid.settings import Epochs, Settings
from deid.storage import Shared
from deid.tokens import decode_labels
from deid.training import Phase, phases, train
from utils.errors import UserError

FEWEST = 10  # received sentences with which a de-identifier can be trained and validated


def train_model(
    settings: Settings,
    embeddings: Embeddings,
    training: Sequence[Note],
    validation: Sequence[Note],
    epochs: Epochs,
    checkpoint: Path | None = None,
    show: bool = True,
) -> Model:
    """Train representation, de-identifier and adversary together (see `training`)."""
    random = np.random.default_rng(settings.seed)
    fit, held_out = (
        encode(part, embeddings, settings.labels, settings.neighbors, random) for part in (training, validation)
    )
    if not (fit.has_phi.any() and held_out.has_phi.any()):
        raise UserError("no PHI in the training or in the validation notes. Both need some")
    model = Model(settings, embeddings)
    train(model, fit, held_out, phases(settings, epochs), checkpoint, show)
    return model


def represent(model: Model, notes: Sequence[Note]) -> Shared:
    """Return what a hospital sends: representations, casing and labels of all sentences, in random order.

    Noise and order are drawn afresh from the operating system at every call. Sentences are shuffled over all notes, so
    that neither notes nor their order can be pieced together from the file's order.
    """
    model.renew_noise()
    encoded = encode(notes, model.embeddings, model.settings.labels)
    representations = np.empty((len(encoded.ids), model.size), np.float32)
    for chosen in batches(encoded.lengths, np.arange(len(encoded.lengths)), None, 128):
        lengths = encoded.lengths[chosen]
        found = model.represent(encoded.vectors[encoded.pad(encoded.ids, chosen)], lengths)
        for row, start, length in zip(found, encoded.starts[chosen], lengths, strict=True):
            representations[start : start + length] = row[:length]
    order = np.random.default_rng().permutation(len(encoded.lengths))
    tokens = np.concatenate([np.arange(encoded.starts[i], encoded.starts[i] + encoded.lengths[i]) for i in order])
    return Shared(
        representations=representations[tokens],
        casing=encoded.casing[tokens],
        labels=encoded.labels[tokens].astype(np.int16),
        lengths=encoded.lengths[order].astype(np.int32),
        label_names=model.settings.labels,
        model=model.fingerprint(),
    )


def retrain(model: Model, received: Sequence[Shared], epochs: int, seed: int = 0, show: bool = True) -> Model:
    """Return a model with a new de-identifier, trained on what was received. A tenth of the sentences validate.

    Raises
    ------
    UserError
        If fewer than `FEWEST` sentences were received.
    """
    every = _together(received)
    if len(every.lengths) < FEWEST:
        raise UserError(f"{len(every.lengths)} sentences received. Training and validation need at least {FEWEST}")
    order = np.random.default_rng(seed).permutation(len(every.lengths))
    cut = max(1, len(order) // 10)
    fit, held_out = (
        replace(every, starts=every.starts[chosen], lengths=every.lengths[chosen], note_of=chosen)
        for chosen in (order[cut:], order[:cut])
    )
    new = model.with_new_deidentifier(seed)
    train(new, fit, held_out, [Phase("retrain", ("retrain",), epochs, "evaluate received")], show=show)
    return new


def _together(received: Sequence[Shared]) -> Encoded:
    """Return what was received as sentences whose `vectors` are representations, one row a token."""
    lengths = np.concatenate([shared.lengths for shared in received]).astype(np.int64)
    labels = np.concatenate([shared.labels for shared in received]).astype(np.int32)
    return Encoded(
        vectors=np.concatenate([shared.representations for shared in received]),
        ids=np.arange(len(labels), dtype=np.int32),
        casing=np.concatenate([shared.casing for shared in received]),
        labels=labels,
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        note_of=np.arange(len(lengths)),
        hidden=labels > 0,
    )


def label(model: Model, notes: Sequence[Note]) -> list[Note]:
    """Return the notes with the PHI the model finds, whatever annotations they came with."""
    bare = [replace(note, spans=None) for note in notes]
    encoded = encode(bare, model.embeddings, model.settings.labels)
    names = np.array(model.settings.labels)[model.predict(encoded)]
    spans: list[list] = [[] for _ in notes]
    for sentence, start, note in zip(encoded.sentences, encoded.starts, encoded.note_of, strict=True):
        spans[note] += decode_labels(sentence.offsets, names[start : start + len(sentence.words)])
    return [replace(note, spans=tuple(sorted(found))) for note, found in zip(bare, spans, strict=True)]
