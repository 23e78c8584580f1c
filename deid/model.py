"""A model: settings, word embeddings and three networks. It represents sentences and labels their tokens."""

import hashlib
from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf

from deid import crf
from deid.embeddings import Embeddings
from deid.encoding import Encoded, batches
from deid.networks import Adversary, Deidentifier, Representation, initialize
from deid.settings import Settings

# How many noisy representations are averaged to label a note. On 50 validation notes of MEDDOCAN, F1 was 0.921 with 1,
# 0.929 with 4 and 0.934 with 16.
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
    def networks(self) -> dict[str, keras.layers.Layer]:
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
        """Undo `weights`.

        Raises
        ------
        KeyError
            If an array is missing.
        ValueError
            If an array has another shape than the weight.
        """
        for name, network in self.networks.items():
            network.set_weights([arrays[f"{name}/{i}"] for i in range(len(network.weights))])

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that name the embeddings and the representation network."""
        digest = hashlib.sha256()
        for array in (self.embeddings.vectors, self.embeddings.subwords, *self.representation.get_weights()):
            digest.update(np.ascontiguousarray(array, np.float32).tobytes())
        return digest.hexdigest()[:16]

    def renew_noise(self) -> None:
        """Seed the noise from the operating system, so that two uses of a model never draw the same noise."""
        self.random.reset(np.random.default_rng().integers(np.iinfo(np.int64).max, size=3, dtype=np.int64))

    def represent(self, vectors: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return noisy representations of padded embeddings: [B, T, E], [B] -> [B, T, S] float32."""
        return _represent(self.representation, tf.constant(vectors), tf.constant(lengths, tf.int32)).numpy()

    def predict(self, encoded: Encoded) -> np.ndarray:
        """Return each token's most likely label as an index: [t].

        The de-identifier's scores are the mean over `LABEL_DRAWS` noisy representations. Labelling sends nothing, so
        the noise protects nothing here and may be averaged out.
        """
        found = np.zeros(len(encoded.ids), np.int32)
        start = self.deidentifier.start.numpy() + crf.forbidden(self.settings.labels)[0]
        transitions = self.deidentifier.transitions.numpy() + crf.forbidden(self.settings.labels)[1]
        draws = 1 if self.settings.representation == "raw" else LABEL_DRAWS
        for chosen in batches(encoded.lengths, np.arange(len(encoded.lengths)), None, 128):
            lengths = encoded.lengths[chosen]
            scores = mean_scores(
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

    def with_new_deidentifier(self, seed: int) -> "Model":
        """Return a model with the same embeddings, representation and adversary and an untrained de-identifier.

        The new de-identifier and its dropout depend on `seed` alone, whatever the representation's shape.
        """
        model = Model(replace(self.settings, seed=seed), self.embeddings)
        model.representation.set_weights(self.representation.get_weights())
        model.adversary.set_weights(self.adversary.get_weights())
        initialize(model.deidentifier, np.random.default_rng(seed))
        model.random.reset_from_seed(seed)
        return model


@tf.function(reduce_retracing=True)
def _represent(network: Representation, vectors: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    return network(vectors, lengths)


@tf.function(reduce_retracing=True)
def mean_scores(
    representation: Representation,
    network: Deidentifier,
    vectors: tf.Tensor,
    casing: tf.Tensor,
    lengths: tf.Tensor,
    draws: tf.Tensor,
) -> tf.Tensor:
    """Return label scores [B, T, K], the mean over `draws` noisy representations of embeddings `vectors` [B, T, E]."""
    total = tf.zeros([tf.shape(vectors)[0], tf.shape(vectors)[1], network.labels])
    for _ in tf.range(draws):
        total += network(representation(vectors, lengths), casing, lengths)
    return total / tf.cast(draws, tf.float32)
