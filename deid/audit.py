"""Does a representation leak? Four attacks by fresh adversaries, each beside chance and beside raw embeddings.

The attacker knows the model (it is public), has annotated notes of its own, and holds what a hospital sent: noisy
representations, casing and labels (which look-up of whole sentences and inversion use, the others do not). Attacks:

- `tell_apart`: do these two show the same sentence? New networks, trained to their own convergence, as in training but
  stronger: each answer has its own loss and every sentence is shown both ways.
- `look_up_sentences`: a table of known sentences, each the mean of several draws; which is nearest to what was sent?
- `look_up_phi`: a sentence known but for one PHI token; which of its candidates gives what was sent?
- `invert`: a network that names each PHI token from all that was sent; beside it the same network without the
  representation, since labels and casing alone already allow good guesses.

Low figures show that these attacks failed, not that none can succeed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf

from deid.corpus import Note
from deid.encoding import BATCH, Encoded, batches, encode
from deid.evaluation import DRAWS, wilson
from deid.models import Adversary, BiLSTM, Representation, initialize
from deid.storage import Model
from deid.tokens import CASINGS
from utils.errors import UserError
from utils.progress import progress_bar

EPOCHS = 100  # at most; the adversaries of the training see 60 at most
WIDTH = 300  # units of the fresh adversaries' LSTMs, a direction, as published
PATIENCE = 10
TABLE_DRAWS = 8  # draws averaged for each entry of a look-up table
CANDIDATES = 199  # PHI candidates beside the true token
LOOK_UPS = 1000  # sentences looked up with candidates, at most


@dataclass(frozen=True)
class Rate:
    """A rate over targets with its 95 % interval: the wider of Wilson's and of one that draws notes, at each end."""

    value: float
    low: float
    high: float
    trials: int


@dataclass
class Result:
    """One attack: rates by name, chance, what the labels alone give where that is known, series [n] over targets.

    `learned` is the epoch the attacker's network is from and the most there could be, where there is a network. Where
    the two are equal it may not have learned all there is.
    """

    name: str
    rates: dict[str, Rate]
    chance: dict[str, float]
    series: dict[str, np.ndarray] = field(default_factory=dict)
    labels_alone: dict[str, float] = field(default_factory=dict)
    learned: tuple[int, int] | None = None


def rate(hits: np.ndarray, notes: np.ndarray, random: np.random.Generator) -> Rate:
    """Return the rate of `hits` [n] (0 or 1) of targets in `notes` [n]."""
    if not len(hits):
        return Rate(0.0, 0.0, 1.0, 0)
    low, high = wilson(round(float(np.sum(hits))), len(hits))
    from_notes = _by_notes(hits, notes, random)
    return Rate(float(np.mean(hits)), min(low, from_notes[0]), max(high, from_notes[1]), len(hits))


def gain(result: Result, without: Result, figure: str, random: np.random.Generator) -> Rate:
    """Return how much more often `figure` is hit than `without`, target by target; the interval draws notes."""
    more = result.series[figure] - without.series[figure]
    return Rate(float(np.mean(more)), *_by_notes(more, result.series["note"], random), len(more))


def _by_notes(values: np.ndarray, notes: np.ndarray, random: np.random.Generator) -> tuple[float, float]:
    """Return the 95 % interval of the mean of `values` [n] when the notes are drawn anew, with replacement."""
    _, place = np.unique(notes, return_inverse=True)
    sums, sizes = np.bincount(place, values), np.bincount(place)
    drawn = random.integers(len(sums), size=(DRAWS, len(sums)))
    means = sums[drawn].sum(1) / sizes[drawn].sum(1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


Sender = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # embeddings [B, T, E], lengths [B] -> what is sent [B, T, S]


def _fit(
    step: Callable[[np.ndarray, bool], float],
    weights: Callable[[], list[np.ndarray]],
    restore: Callable[[list[np.ndarray]], None],
    fit: Encoded,
    held_out: np.ndarray,
    epochs: int,
    random: np.random.Generator,
    title: str,
    show: bool,
) -> int:
    """Train on sentences with PHI until the loss on those `held_out` no longer falls; returns the best epoch."""
    chosen = np.setdiff1d(np.flatnonzero(fit.has_phi), held_out)
    least, waited, best, best_epoch = np.inf, 0, weights(), 0
    with progress_bar(epochs, title, "epoch", show) as bar:
        for epoch in range(1, epochs + 1):
            for part in batches(fit.lengths, chosen, random):
                step(part, True)
            losses = [(step(part, False), len(part)) for part in batches(fit.lengths, held_out, None, 4 * BATCH)]
            loss = float(np.average([a for a, _ in losses], weights=[b for _, b in losses]))
            waited += 1
            if loss < least:
                least, waited, best, best_epoch = loss, 0, weights(), epoch
            bar.update()
            bar.set_postfix_str(f"validation loss {loss:.4f}")
            if waited == PATIENCE:
                break
    restore(best)
    return best_epoch


def _held_out(encoded: Encoded) -> np.ndarray:
    """Return the sentences with PHI of every fifth note: the attacker's validation set."""
    return np.flatnonzero(encoded.has_phi & (encoded.note_of % 5 == 0))


def tell_apart(
    send: Sender,
    size: int,
    fit: Encoded,
    targets: Encoded,
    seed: int,
    epochs: int = EPOCHS,
    width: int = WIDTH,
    show: bool = True,
) -> Result:
    """Train both adversaries anew and count how often they are right on pairs they have not seen.

    Returns
    -------
    Result
        Rates "(a) with embedding", "(b) two representations", "both": accuracy over pairs, half of them the same.
    """
    random = np.random.default_rng(seed)
    adversary = Adversary(width, tf.random.Generator.from_seed(seed))
    tables = {id(fit): tf.constant(fit.vectors), id(targets): tf.constant(targets.vectors)}
    embedded, sent = tf.zeros([1, 2, fit.vectors.shape[1]]), tf.zeros([1, 2, size])
    adversary(sent, embedded, sent, tf.constant([2]))
    initialize(adversary, random)
    optimizer = keras.optimizers.Nadam(0.001, clipnorm=1.0)
    variables = adversary.trainable_weights
    optimizer.build(variables)
    matrix = tf.TensorSpec([None, None], tf.int32)

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.float32), matrix, matrix, tf.TensorSpec([None], tf.int32)]
    )
    def answers(table: tf.Tensor, ids: tf.Tensor, altered: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, ...]:
        both, lengths = tf.concat([ids, altered], 0), tf.tile(lengths, [2])
        first = send(tf.gather(table, tf.tile(ids, [2, 1])), lengths)
        embeddings = tf.gather(table, both)
        one, two = adversary(first, embeddings, send(embeddings, lengths), lengths)
        same = tf.cast(tf.range(tf.shape(both)[0]) < tf.shape(ids)[0], tf.float32)
        cross = tf.nn.sigmoid_cross_entropy_with_logits
        return one, two, tf.reduce_mean(cross(same, one) + cross(same, two)) / 2

    @tf.function(input_signature=answers.input_signature)
    def learn(table: tf.Tensor, ids: tf.Tensor, altered: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = answers(table, ids, altered, lengths)[2]
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    def pair(encoded: Encoded, part: np.ndarray, random: np.random.Generator) -> tuple[tf.Tensor, ...]:
        # Which of the two was sent is drawn by lot: a replaced token's look must not give the answer away.
        ids, altered = encoded.pad(encoded.ids, part), encoded.altered(part, random)
        swapped = random.random((len(part), 1)) < 0.5
        return (
            tables[id(encoded)],
            tf.constant(np.where(swapped, altered, ids), tf.int32),
            tf.constant(np.where(swapped, ids, altered), tf.int32),
            tf.constant(encoded.lengths[part], tf.int32),
        )

    def step(part: np.ndarray, training: bool) -> float:
        inputs = pair(fit, part, random)
        return float(learn(*inputs) if training else answers(*inputs)[2])

    best = _fit(
        step, adversary.get_weights, adversary.set_weights, fit, _held_out(fit), epochs, random, "tell apart", show
    )
    hits: list[np.ndarray] = []
    notes: list[np.ndarray] = []
    for part in batches(targets.lengths, np.flatnonzero(targets.has_phi), None, 4 * BATCH):
        one, two, _ = (np.asarray(x) for x in answers(*pair(targets, part, random)))
        mean = (1 / (1 + np.exp(-one)) + 1 / (1 + np.exp(-two))) / 2
        same = np.arange(2 * len(part)) < len(part)
        hits.append(np.stack([(one > 0) == same, (two > 0) == same, (mean > 0.5) == same]))
        notes.append(np.tile(targets.note_of[part], 2))
    hit, note = np.concatenate(hits, 1).astype(float), np.concatenate(notes)
    names = ("(a) with embedding", "(b) two representations", "both")
    return Result(
        "tell apart",
        {name: rate(hit[i], note, random) for i, name in enumerate(names)},
        dict.fromkeys(names, 0.5),
        learned=(best, epochs),
    )


def look_up_sentences(send: Sender, targets: Encoded, seed: int) -> Result:
    """Look every different sentence up among all of the same length (the length is sent too); nearest by L2.

    Returns
    -------
    Result
        Rates "top 1", "top 10" over all sentences and over those with PHI; chance: k over those of the same length. And
        "top 1, labels and casing known": only among those that agree in what is sent beside the representation; chance,
        which is what labels and casing tell by themselves: 1 over these. `labels_alone`: what labels tell by
        themselves, and so any vectors that they can be read from without error.
    """
    random = np.random.default_rng(seed)
    seen: dict[tuple[str, ...], int] = {}
    for i, sentence in enumerate(targets.sentences):
        seen.setdefault(sentence.words, i)
    unique = np.array(sorted(seen.values()))
    table = tf.constant(targets.vectors)
    beside = "top 1, labels and casing known"
    hits: dict[str, list[float]] = {"top 1": [], "top 10": [], beside: []}
    chances: dict[str, list[float]] = {name: [] for name in hits}
    labels_alone: list[float] = []
    order: list[int] = []
    for length in np.unique(targets.lengths[unique]):
        chosen = unique[targets.lengths[unique] == length]
        sent, known = [], []
        for part in np.array_split(chosen, -(-len(chosen) // 256)):
            ids = tf.constant(targets.pad(targets.ids, part), tf.int32)
            embeddings, lengths = tf.gather(table, ids), tf.fill([len(part)], tf.constant(length, tf.int32))
            draw = lambda e=embeddings, n=lengths: send(e, n).numpy().reshape(len(e), -1)  # noqa: E731
            sent.append(draw())
            known.append(np.mean([draw() for _ in range(TABLE_DRAWS)], 0))
        a, b = np.concatenate(sent), np.concatenate(known)
        distance = (b**2).sum(1) - 2 * a @ b.T  # squared L2 but for what all entries share
        nearer = distance < np.diag(distance)[:, None]
        rank = nearer.sum(1)
        labels, casing = (targets.pad(part, chosen) for part in (targets.labels, targets.casing))
        alike = _same_rows(np.concatenate([labels, casing], 1))
        labels_alone += (1 / _same_rows(labels).sum(1)).tolist()
        hits[beside] += (~(nearer & alike).any(1)).astype(float).tolist()
        chances[beside] += (1 / alike.sum(1)).tolist()
        order += chosen.tolist()
        for k, name in ((1, "top 1"), (10, "top 10")):
            hits[name] += (rank < k).astype(float).tolist()
            chances[name] += [min(1.0, k / len(chosen))] * len(chosen)
    places = np.array(order)
    groups = {"": np.ones(len(places), bool), ", with PHI": targets.has_phi[places]}
    rates, chance, alone = {}, {}, {}
    for suffix, inside in groups.items():
        alone["top 1" + suffix] = float(np.mean(np.array(labels_alone)[inside])) if inside.any() else 0.0
        for name in hits:
            rates[name + suffix] = rate(np.array(hits[name])[inside], targets.note_of[places][inside], random)
            chance[name + suffix] = float(np.mean(np.array(chances[name])[inside])) if inside.any() else 0.0
    return Result("look up sentences", rates, chance, labels_alone=alone)


def _same_rows(rows: np.ndarray) -> np.ndarray:
    """[n, m] -> [n, n], which rows are equal."""
    group = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return np.asarray(group[:, None] == group)


def look_up_phi(send: Sender, targets: Encoded, seed: int) -> Result:
    """Look one PHI token of a known sentence up among its candidates: the token itself and its neighbours.

    Returns
    -------
    Result
        Rates "top 1", "top 10" over at most `LOOK_UPS` sentences.
    """
    random = np.random.default_rng(seed)
    chosen = np.flatnonzero(targets.has_phi)
    chosen = random.permutation(chosen)[:LOOK_UPS]
    table, ranks = tf.constant(targets.vectors), []
    number = min(CANDIDATES, targets.candidates.shape[1])
    for i in chosen:
        tokens = slice(targets.starts[i], targets.starts[i] + targets.lengths[i])
        place = random.choice(np.flatnonzero(targets.hidden[tokens]))
        ids = np.repeat(targets.ids[tokens][None], number + 1, 0)
        ids[1:, place] = random.permutation(targets.candidates[ids[0, place]])[:number]
        lengths = tf.fill([number + 1], tf.constant(targets.lengths[i], tf.int32))
        embeddings = tf.gather(table, ids)
        sent = send(embeddings[:1], lengths[:1]).numpy()
        known = np.mean([send(embeddings, lengths).numpy() for _ in range(TABLE_DRAWS)], 0)
        distance = ((known - sent) ** 2).sum((1, 2))
        ranks.append((distance < distance[0]).sum())
    rank = np.array(ranks)
    notes = targets.note_of[chosen]
    return Result(
        "look up PHI",
        {f"top {k}": rate((rank < k).astype(float), notes, random) for k in (1, 10)},
        {f"top {k}": min(1.0, k / (number + 1)) for k in (1, 10)},
        {"rank": rank / max(number, 1)},
    )


class Inverter(keras.layers.Layer):
    """What was sent -> the token's embedding: [B, T, S], casing and labels [B, T] -> unit vectors [B, T, E]."""

    def __init__(self, labels: int, size: int, random: tf.random.Generator) -> None:
        super().__init__()
        self.labels = labels
        self.lstm, self.project = BiLSTM(128, random), keras.layers.Dense(size)

    def call(self, sent: tf.Tensor, casing: tf.Tensor, labels: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """[B, T, S], [B, T], [B, T], [B] -> [B, T, E]."""
        scale = tf.sqrt(tf.cast(tf.shape(sent)[-1], tf.float32))
        x = tf.concat([sent * scale, tf.one_hot(casing, len(CASINGS)), tf.one_hot(labels, self.labels)], -1)
        return tf.math.l2_normalize(self.project(tf.concat([self.lstm(x, lengths), x], -1)), -1)


def invert(
    send: Sender,
    size: int,
    labels: int,
    fit: Encoded,
    targets: Encoded,
    seed: int,
    epochs: int = EPOCHS,
    show: bool = True,
) -> Result:
    """Train a network to name PHI tokens from what was sent: the nearest word to the embedding it recovers.

    It chooses among the PHI words of both the attacker's and the target notes. Punctuation is not counted.

    Returns
    -------
    Result
        Rate "token found"; series "token found", "note" and "rank": the true token's, 0 best, as a share of the words.
    """
    random = np.random.default_rng(seed)
    inverter = Inverter(labels, fit.vectors.shape[1], tf.random.Generator.from_seed(seed))
    inverter(tf.zeros([1, 2, size]), tf.zeros([1, 2], tf.int32), tf.zeros([1, 2], tf.int32), tf.constant([2]))
    initialize(inverter, random)
    scale = tf.Variable(10.0)
    optimizer = keras.optimizers.Nadam(0.002, clipnorm=1.0)
    variables = inverter.trainable_weights
    optimizer.build(variables)
    tables = {id(part): tf.constant(part.vectors) for part in (fit, targets)}
    words = [np.unique(part.ids[part.hidden]) for part in (fit, targets)]
    unit = [_unit(part.vectors[rows]) for part, rows in zip((fit, targets), words, strict=True)]
    known = tf.constant(unit[0])
    place = np.zeros(len(fit.vectors), np.int32)
    place[words[0]] = np.arange(len(words[0]))
    matrix = tf.TensorSpec([None, None], tf.int32)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.float32),
            matrix,
            matrix,
            matrix,
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def recover(table: tf.Tensor, ids: tf.Tensor, casing: tf.Tensor, tags: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        return inverter(send(tf.gather(table, ids), lengths), casing, tags, lengths)

    def loss_of(inputs: Sequence[tf.Tensor], hidden: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
        found = tf.boolean_mask(recover(*inputs), hidden)
        logits = tf.linalg.matmul(found, known, transpose_b=True) * scale
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.boolean_mask(truth, hidden), logits))

    @tf.function(reduce_retracing=True)
    def learn(inputs: Sequence[tf.Tensor], hidden: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(inputs, hidden, truth)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    def inputs_of(encoded: Encoded, part: np.ndarray) -> list[tf.Tensor]:
        arrays = (encoded.ids, encoded.casing, encoded.labels)
        padded = [tf.constant(encoded.pad(flat, part), tf.int32) for flat in arrays]
        return [tables[id(encoded)], *padded, tf.constant(encoded.lengths[part], tf.int32)]

    def step(part: np.ndarray, training: bool) -> float:
        hidden, truth = fit.pad(fit.hidden, part), fit.pad(place[fit.ids], part)
        return float((learn if training else loss_of)(inputs_of(fit, part), tf.constant(hidden), tf.constant(truth)))

    best = _fit(step, inverter.get_weights, inverter.set_weights, fit, _held_out(fit), epochs, random, "invert", show)
    names = {
        word: None for rows, part in zip(words, (fit, targets), strict=True) for word in (part.words[i] for i in rows)
    }
    every = {word: i for i, word in enumerate(names)}
    space = np.zeros((len(every), fit.vectors.shape[1]), np.float32)
    for rows, part, vectors in zip(words, (fit, targets), unit, strict=True):
        space[[every[part.words[i]] for i in rows]] = vectors
    ranks, notes = [], []
    for chosen in batches(targets.lengths, np.flatnonzero(targets.has_phi), None, 4 * BATCH):
        hidden = targets.pad(targets.hidden, chosen)
        found = np.asarray(recover(*inputs_of(targets, chosen)))[hidden]
        truth = np.array([every[targets.words[i]] for i in targets.pad(targets.ids, chosen)[hidden]])
        likeness = found @ space.T
        ranks.append((likeness > likeness[np.arange(len(truth)), truth][:, None]).sum(1))
        notes.append(np.repeat(targets.note_of[chosen], hidden.sum(1)))
    rank, note = np.concatenate(ranks), np.concatenate(notes)
    found = (rank == 0).astype(float)
    return Result(
        "invert",
        {"token found": rate(found, note, random)},
        {"token found": 1 / len(every)},
        {"rank": rank / len(every), "token found": found, "note": note},
        learned=(best, epochs),
    )


def guess_by_type(fit: Encoded, targets: Encoded, labels: Sequence[str], seed: int) -> Rate:
    """Return how often a PHI token is the most frequent one of its type in the attacker's notes."""
    types = np.array([label[2:] for label in labels])
    counts: dict[str, dict[str, int]] = {}
    for i in np.flatnonzero(fit.hidden):
        of_type = counts.setdefault(types[fit.labels[i]], {})
        word = fit.words[fit.ids[i]]
        of_type[word] = of_type.get(word, 0) + 1
    best = {phi: max(of_type, key=lambda word: of_type[word]) for phi, of_type in counts.items()}
    tokens = np.flatnonzero(targets.hidden)
    hits = [targets.words[targets.ids[i]] == best.get(types[targets.labels[i]]) for i in tokens]
    notes = np.repeat(targets.note_of, targets.lengths)[tokens]
    return rate(np.array(hits, float), notes, np.random.default_rng(seed))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


@dataclass(frozen=True)
class Audit:
    """Every attack on the representation, on raw embeddings, and (inversion) on labels and casing alone."""

    private: list[Result]
    raw: list[Result]
    nothing: Result
    gain: Rate  # of inversion over `nothing`
    guess: Rate
    settings: dict[str, str | int | float]


def audit(
    model: Model,
    attacker: Sequence[Note],
    targets: Sequence[Note],
    seed: int = 0,
    epochs: int = EPOCHS,
    width: int = WIDTH,
    show: bool = True,
) -> Audit:
    """Attack a model's representations of `targets` by an attacker who has the annotated notes `attacker`.

    Raises
    ------
    UserError
        Where either has no PHI to attack.
    """
    random = np.random.default_rng(seed)
    number = max(model.settings.neighbors, 2)
    labels = model.settings.labels
    fit = encode(attacker, model.embeddings, labels, number, random)
    sought = encode(targets, model.embeddings, labels, number, random)
    if not len(_held_out(fit)) or not sought.has_phi.any() or not (fit.has_phi & (fit.note_of % 5 > 0)).any():
        raise UserError("an audit needs annotated notes with PHI: at least two for the attacker and one to attack")
    candidates = encode(targets, model.embeddings, labels, CANDIDATES, random)
    embedding = model.embeddings.size
    results: list[list[Result]] = []
    bare = Representation("raw", embedding, 0, model.random)
    for name, network, size in (("representation", model.representation, model.size), ("raw", bare, embedding)):
        if show:
            print(f"Attacking: {name}")
        send = tf.function(network, reduce_retracing=True)
        results.append(
            [
                tell_apart(send, size, fit, sought, seed, epochs, width, show),
                look_up_sentences(send, sought, seed),
                look_up_phi(send, candidates, seed),
                invert(send, size, len(labels), fit, sought, seed, epochs, show),
            ]
        )
    if show:
        print("Attacking: labels and casing alone")

    def nothing(embeddings: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        return tf.zeros_like(embeddings[..., :1])

    alone = invert(nothing, 1, len(labels), fit, sought, seed, epochs, show)
    return Audit(
        private=results[0],
        raw=results[1],
        nothing=alone,
        gain=gain(results[0][-1], alone, "token found", np.random.default_rng(seed)),
        guess=guess_by_type(fit, sought, labels, seed),
        settings={
            "representation": model.settings.representation,
            "size": model.size,
            "procedure": model.settings.procedure,
            "neighbors": number,
            "attacker's notes": len(attacker),
            "notes attacked": len(targets),
            "epochs at most": epochs,
            "adversaries' width": width,
        },
    )
