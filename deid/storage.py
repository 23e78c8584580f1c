"""A model as one .npz of arrays and JSON (no pickles), checked when read; likewise what a hospital sends."""

import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from deid import crf
from deid.embeddings import Embeddings
from deid.encoding import Encoded, batches
from deid.files import read_archive, write_archive
from deid.models import KINDS, Adversary, Deidentifier, Representation, initialize
from deid.settings import Settings
from utils.errors import UserError

# Noisy representations averaged over to label a note. MEDDOCAN, 50 validation notes, F1: 0.921 with 1, 0.929 with 4,
# 0.934 with 16.
LABEL_DRAWS = 8


class Model:
    """Settings, embeddings and the three networks, built and ready to use."""

    def __init__(self, settings: Settings, embeddings: Embeddings) -> None:
        self.settings, self.embeddings = settings, embeddings
        self.random = tf.random.Generator.from_seed(settings.seed)
        self.size = embeddings.size if settings.representation == "raw" else settings.size
        self.representation = Representation(settings.representation, self.size, settings.width, self.random)
        self.deidentifier = Deidentifier(len(settings.labels), settings.width, self.random)
        self.adversary = Adversary(settings.adversary_width, self.random)
        embedded, lengths = tf.zeros([1, 2, embeddings.size]), tf.constant([2])
        vectors = self.representation(embedded, lengths)
        self.deidentifier(vectors, tf.zeros([1, 2], tf.int32), lengths)
        self.adversary(vectors, embedded, vectors, lengths)
        random = np.random.default_rng(settings.seed)
        for network in self.networks.values():
            initialize(network, random)

    @property
    def networks(self) -> dict[str, Any]:
        """The three networks by name."""
        return {
            "representation": self.representation,
            "deidentifier": self.deidentifier,
            "adversary": self.adversary,
        }

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of every network's weights by name and place."""
        return {f"{name}/{i}": w for name, net in self.networks.items() for i, w in enumerate(net.get_weights())}

    def set_weights(self, arrays: dict[str, np.ndarray]) -> None:
        """Undo `weights`; raises ValueError where a shape does not fit, KeyError where one is missing."""
        for name, network in self.networks.items():
            network.set_weights([arrays[f"{name}/{i}"] for i in range(len(network.weights))])

    def fingerprint(self) -> str:
        """Return a name for what the representation model computes: the same for every model that shares it."""
        digest = hashlib.sha256()
        for array in (self.embeddings.vectors, self.embeddings.subwords, *self.representation.get_weights()):
            digest.update(np.ascontiguousarray(array, np.float32).tobytes())
        return digest.hexdigest()[:16]

    def renew_noise(self) -> None:
        """Seed the noise from the operating system: two uses of a model never draw the same."""
        self.random.reset(np.random.default_rng().integers(np.iinfo(np.int64).max, size=3, dtype=np.int64))

    def represent(self, vectors: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return noisy representations of padded embeddings: [B, T, E], [B] -> [B, T, S] float32."""
        return _represent(self.representation, tf.constant(vectors), tf.constant(lengths, tf.int32)).numpy()

    def predict(self, encoded: Encoded) -> np.ndarray:
        """Return each token's most likely label as an index: [t].

        The de-identifier's scores are the mean over `LABEL_DRAWS` noisy representations. Labelling sends nothing, so
        here the noise hides nothing, and averaging it out is free of risk.
        """
        found = np.zeros(len(encoded.ids), np.int32)
        start = self.deidentifier.start.numpy() + crf.forbidden(self.settings.labels)[0]
        transitions = self.deidentifier.transitions.numpy() + crf.forbidden(self.settings.labels)[1]
        draws = 1 if self.settings.representation == "raw" else LABEL_DRAWS
        for chosen in batches(encoded.lengths, np.arange(len(encoded.lengths)), None, 128):
            lengths = encoded.lengths[chosen]
            scores = _mean_scores(
                self.representation,
                self.deidentifier,
                tf.constant(encoded.vectors[encoded.pad(encoded.ids, chosen)]),
                tf.constant(encoded.pad(encoded.casing, chosen), tf.int32),
                tf.constant(lengths, tf.int32),
                tf.constant(draws),
            )
            best = crf.viterbi(scores.numpy(), lengths, start, transitions)
            for row, begin, length in zip(best, encoded.starts[chosen], lengths, strict=True):
                found[begin : begin + length] = row[:length]
        return found

    def with_deidentifier(self, seed: int) -> "Model":
        """Return a model with the same embeddings and representation and a new, untrained de-identifier."""
        model = Model(replace(self.settings, seed=seed), self.embeddings)
        model.representation.set_weights(self.representation.get_weights())
        model.adversary.set_weights(self.adversary.get_weights())
        return model


@tf.function(reduce_retracing=True)
def _represent(network: Representation, vectors: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    return network(vectors, lengths)


@tf.function(reduce_retracing=True)
def _mean_scores(
    representation: Representation,
    network: Deidentifier,
    vectors: tf.Tensor,
    casing: tf.Tensor,
    lengths: tf.Tensor,
    draws: tf.Tensor,
) -> tf.Tensor:
    total = tf.zeros([tf.shape(vectors)[0], tf.shape(vectors)[1], network.labels])
    for _ in tf.range(draws):
        total += network(representation(vectors, lengths), casing, lengths)
    return total / tf.cast(draws, tf.float32)


def save_model(path: Path, model: Model) -> None:
    """Write a model as one file."""
    arrays = {f"weights/{name}": array for name, array in model.weights().items()}
    arrays |= {f"embeddings/{name}": array for name, array in model.embeddings.arrays().items()}
    write_archive(path, "model", {"settings": asdict(model.settings)}, arrays)


def load_model(path: Path) -> Model:
    """Read a model; `UserError` where the file is missing, damaged, of another version or not a model."""
    meta, arrays = read_archive(path, "model")
    parts: dict[str, dict[str, np.ndarray]] = {"weights": {}, "embeddings": {}}
    try:
        for name, array in arrays.items():
            group, _, rest = name.partition("/")
            parts[group][rest] = array
        settings = Settings(**{**meta["settings"], "labels": tuple(meta["settings"]["labels"])})
        if settings.representation not in KINDS:
            raise ValueError(f"unknown representation {settings.representation}")
        model = Model(settings, Embeddings.from_arrays(parts["embeddings"]))
        model.set_weights(parts["weights"])
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path}: a damaged model: {' '.join(str(error).split())[:200]}") from error
    model.renew_noise()
    return model


@dataclass
class Shared:
    """What a hospital sends: n sentences, t tokens in all.

    Attributes
    ----------
    representations : [t, S] float32
    casing : [t] uint8
    labels : [t] int16
        Index into `label_names`.
    lengths : [n] int32
    label_names : tuple of str
    model : str
        Fingerprint of the representation model.
    """

    representations: np.ndarray
    casing: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    label_names: tuple[str, ...]
    model: str


def save_shared(path: Path, shared: Shared) -> None:
    """Write what a hospital sends."""
    arrays = {name: getattr(shared, name) for name in ("representations", "casing", "labels", "lengths")}
    write_archive(path, "representations", {"labels": shared.label_names, "model": shared.model}, arrays)


def load_shared(path: Path, model: Model) -> Shared:
    """Read what a hospital sent and check that it is whole and made with `model`; `UserError` names the file."""
    meta, arrays = read_archive(path, "representations")
    try:
        shared = Shared(**arrays, label_names=tuple(meta["labels"]), model=meta["model"])
        tokens, size = shared.representations.shape
        whole = (
            shared.casing.shape == shared.labels.shape == (tokens,)
            and shared.lengths.ndim == 1
            and (shared.lengths > 0).all()
            and int(shared.lengths.sum()) == tokens
            and bool(np.isfinite(shared.representations).all())
            and 0 <= int(shared.labels.min()) <= int(shared.labels.max()) < len(shared.label_names)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a damaged representation file") from error
    if not whole:
        raise UserError(f"{path}: a damaged representation file: its arrays do not fit together")
    if size != model.size:
        raise UserError(f"{path}: representations of size {size}, the model's are of size {model.size}")
    if shared.model != model.fingerprint():
        raise UserError(f"{path}: made with another representation model (same size, other weights)")
    if shared.label_names != model.settings.labels:
        raise UserError(f"{path}: its labels are not the model's")
    return shared
