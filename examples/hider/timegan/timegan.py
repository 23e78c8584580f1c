"""TimeGAN: an autoencoder, and a generative adversarial network in its latent space.

Yoon, Jarrett and van der Schaar, "Time-series Generative Adversarial Networks", NeurIPS 2019. The steps are the
paper's: networks, losses, then the phases in their order. What differs from the published code, and why:

- Series have lengths: losses and moments count real time points only, generated lengths are drawn from the training
  lengths with replacement. With series of one length this is the published computation.
- Generator and embedder take their joint step from the same forward pass instead of one after the other.
- The GRU's reset gate acts behind the matrix product (as in cuDNN and Keras), not before it.
"""

import dataclasses
import functools
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from utils.data_preprocess import PADDING_FILL
from utils.errors import UserError
from utils.files import atomic_path
from utils.misc import legacy_rng
from utils.progress import progress_bar
from utils.recurrent import Adam, Module, Network, apply
from utils.stays import front_padding, padded_rows
from utils.tensors import Tensor

STEPS_PER_CALL = 20  # compiled training steps between two looks at the losses


@dataclass(frozen=True)
class Parameters:
    """The published values (Yoon et al. 2019, and their code for what the paper leaves open)."""

    module: Module = "gru"  # or lstm
    hidden: int = 10  # units of a layer. 24 for the published stocks figures
    layers: int = 3  # the supervisor has one less
    batch: int = 128
    embedding_iterations: int = 20_000
    supervised_iterations: int = 20_000
    joint_iterations: int = 20_000
    gamma: float = 1.0  # weight of the discriminator's verdict on latents before the supervisor
    supervised_weight: float = 100.0  # of the square root of the next-step error, in the generator's loss
    moment_weight: float = 100.0  # of the difference of means and standard deviations, in the generator's loss
    reconstruction_weight: float = 10.0  # of the square root of the reconstruction error, in the embedder's loss
    embedder_supervised_weight: float = 0.1  # of the next-step error, in the embedder's loss
    discriminator_threshold: float = 0.15  # the discriminator rests while its loss is below
    generator_steps: int = 2  # per step of the discriminator
    learning_rate: float = 1e-3  # of Adam
    decay: float = (
        0.0  # last share of the joint phase in which its learning rate falls to 0 (cosine). Published: 0, none
    )
    checkpoint: str | None = "."  # folder in which a long run keeps its state, to continue when killed. None: nowhere
    checkpoint_minutes: float = 5.0

    def __post_init__(self) -> None:
        for name in ("hidden", "batch", "layers", "generator_steps"):
            least = 2 if name == "layers" else 1
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("embedding_iterations", "supervised_iterations", "joint_iterations"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if not 0 <= self.decay <= 1:
            raise ValueError(f"decay must be between 0 and 1, not {self.decay:g}")
        for name in ("learning_rate", "supervised_weight"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name):g}")


def timegan(
    ori_data: np.ndarray,
    parameters: Parameters = Parameters(),
    rng: np.random.Generator | None = None,
    progress: bool = True,
) -> np.ndarray:
    """Train TimeGAN on stays and generate as many.

    Parameters
    ----------
    ori_data : ndarray, shape [N, T, F]
        Stays without missing values, in any units. Shorter ones padded at the front with -1 in all features.
    parameters : Parameters
    rng : numpy.random.Generator, optional
        Fixes everything drawn. Without it, one seeded from NumPy's legacy generator, as 2020's callers expect.
    progress : bool
        Whether to show progress bars with the losses.

    Returns
    -------
    ndarray of float64, shape [N, T, F]
        Generated stays in the input's units, padded at the front with -1. A generated value lies within its
        feature's range in `ori_data`, the minimum and maximum of which are thereby given away.

    Raises
    ------
    UserError
        For data of a wrong shape, NaN or infinities in it, or nothing but padding. Or when training diverges.
    """
    series = _Series.from_padded(ori_data)
    seed = int((legacy_rng() if rng is None else rng).integers(2**31))
    weights = train(series, parameters, seed, progress)
    return generate(series, weights, parameters, len(ori_data), seed)


@dataclass(frozen=True)
class _Series:
    """Stays to learn from: scaled to [0, 1], each beginning at time point 0, zeros after its end.

    Attributes
    ----------
    values : ndarray of float32, shape [N, T, F]
    lengths : ndarray of int, shape [N]
        All at least 1: stays without a time point are left out.
    low, span : ndarray, shape [F]
        Minimum and range of each feature.
    """

    values: np.ndarray
    lengths: np.ndarray
    low: np.ndarray
    span: np.ndarray

    @classmethod
    def from_padded(cls, data: np.ndarray) -> "_Series":
        data = np.asarray(data)
        if data.ndim != 3 or 0 in data.shape:
            raise UserError(f"data must be [stays, time points, features], none of them 0, not {data.shape}")
        if not np.isfinite(data).all():
            raise UserError("data hold NaN or infinities: impute first (utils.data_preprocess.preprocess_data)")
        time_points = data.shape[1]
        padded = padded_rows(data, None)
        padding = np.where(padded.all(axis=1), time_points, np.argmin(padded, axis=1))
        real = np.arange(time_points) >= padding[:, None]
        if not real.any():
            raise UserError("data hold nothing but padding")
        low, high = data[real].min(axis=0), data[real].max(axis=0)
        kept = np.flatnonzero(padding < time_points)
        lengths = time_points - padding[kept]
        values = np.zeros((len(kept), *data.shape[1:]), np.float32)
        span = (high - low).astype(float)
        ahead = np.arange(time_points) < lengths[:, None]
        values[ahead] = (data[kept][real[kept]] - low) / np.where(span > 0, span, 1.0)
        return cls(values, lengths, low.astype(float), span)


# ------------------------------------------------------------------------------------------------------ networks


class _Networks(NamedTuple):
    """The five networks, their weights, or anything else there is one of for each."""

    embedder: Any
    recovery: Any
    generator: Any
    supervisor: Any
    discriminator: Any


def _networks(parameters: Parameters, features: int) -> _Networks:
    units, layers, module = parameters.hidden, parameters.layers, parameters.module
    return _Networks(
        embedder=Network(features, units, layers, units, module),
        recovery=Network(units, units, layers, features, module),
        generator=Network(features, units, layers, units, module),
        supervisor=Network(units, units, layers - 1, units, module),
        discriminator=Network(units, units, layers, 1, module, sigmoid=False),
    )


# -------------------------------------------------------------------------------------------------------- losses
# Series are [T, features, B], `real` [T, 1, B] is 1 at real time points and 0 at padding.


def _mean(cells: Tensor, real: Tensor) -> Tensor:
    """Average over real time points and all features."""
    counted = tf.reduce_sum(real) * cells.shape[1]
    return tf.reduce_sum(cells * real) / tf.maximum(counted, 1.0)


def _root(x: Tensor) -> Tensor:
    return tf.sqrt(x + 1e-12)  # the slope of the square root is infinite at 0


def _next_step_error(latent: Tensor, supervised: Tensor, real: Tensor) -> Tensor:
    """Mean squared error of the supervisor's output as a forecast of the next latent."""
    return _mean(tf.square(latent[1:] - supervised[:-1]), real[1:])


def _moment_difference(x: Tensor, y: Tensor, real: Tensor) -> Tensor:
    """Compare standard deviations and means over the batch, at each time point as far as it is populated."""
    count = tf.reduce_sum(real, 2)  # [T, 1]

    def moments(z: Tensor) -> tuple[Tensor, Tensor]:
        mean = tf.reduce_sum(z * real, 2) / tf.maximum(count, 1.0)
        variance = tf.reduce_sum(tf.square(z - mean[:, :, None]) * real, 2) / tf.maximum(count, 1.0)
        return mean, tf.sqrt(variance + 1e-6)

    (mean_x, deviation_x), (mean_y, deviation_y) = moments(x), moments(y)
    difference = tf.abs(mean_x - mean_y) + tf.abs(deviation_x - deviation_y)
    return tf.reduce_sum(difference * count) / (tf.reduce_sum(count) * x.shape[1])


def _cross_entropy(logits: Tensor, label: float, real: Tensor) -> Tensor:
    return _mean(tf.nn.sigmoid_cross_entropy_with_logits(tf.fill(logits.shape, label), logits), real)


@tf.function(jit_compile=True, autograph=False)
def _reconstruction_loss(x: Tensor, recovered: Tensor, real: Tensor) -> Tensor:
    return _mean(tf.square(x - recovered), real)


@tf.function(jit_compile=True, autograph=False)
def _supervised_loss(latent: Tensor, supervised: Tensor, real: Tensor) -> Tensor:
    return _next_step_error(latent, supervised, real)


@tf.function(jit_compile=True, autograph=False)
def _generator_losses(
    x: Tensor, generated: Tensor, verdict: Tensor, early_verdict: Tensor, real: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, U_e and V."""
    unsupervised = _cross_entropy(verdict, 1.0, real), _cross_entropy(early_verdict, 1.0, real)
    return (*unsupervised, _moment_difference(generated, x, real))


@tf.function(jit_compile=True, autograph=False)
def _discriminator_loss(
    real_verdict: Tensor, fake_verdict: Tensor, early_verdict: Tensor, real: Tensor, gamma: float
) -> Tensor:
    fake = _cross_entropy(fake_verdict, 0.0, real) + gamma * _cross_entropy(early_verdict, 0.0, real)
    return _cross_entropy(real_verdict, 1.0, real) + fake


# ---------------------------------------------------------------------------------------------- one training step


class _Batch(NamedTuple):
    x: Tensor  # [T, F, B]
    noise: Tensor  # [T, F, B]
    real: Tensor  # [T, 1, B]


_Step = Callable[[Parameters, _Networks, _Networks, list[_Batch], Tensor], tuple[_Networks, list[Tensor]]]


def _embedding_step(
    p: Parameters, net: _Networks, state: _Networks, batches: list[_Batch], rate: Tensor
) -> tuple[_Networks, list[Tensor]]:
    """Autoencoder: embed and recover."""
    (batch,) = batches
    weights = [state.embedder.weights, state.recovery.weights]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        recovered = apply(net.recovery, weights[1], apply(net.embedder, weights[0], batch.x, "weights"))
        error = _root(_reconstruction_loss(batch.x, recovered, batch.real))
        loss = p.reconstruction_weight * error
    slopes = tape.gradient(loss, weights)
    embedder, recovery = (old.step(slope, rate) for old, slope in zip(state[:2], slopes, strict=True))
    return state._replace(embedder=embedder, recovery=recovery), [error]


def _supervised_step(
    p: Parameters, net: _Networks, state: _Networks, batches: list[_Batch], rate: Tensor
) -> tuple[_Networks, list[Tensor]]:
    """Supervisor: forecast the next latent."""
    (batch,) = batches
    latent = apply(net.embedder, state.embedder.weights, batch.x, "weights")
    with tf.GradientTape() as tape:
        tape.watch(state.supervisor.weights)
        supervised = apply(net.supervisor, state.supervisor.weights, latent, "weights")
        error = _supervised_loss(latent, supervised, batch.real)
    slope = tape.gradient(error, state.supervisor.weights)
    return state._replace(supervisor=state.supervisor.step(slope, rate)), [_root(error)]


def _joint_step(
    p: Parameters, net: _Networks, state: _Networks, batches: list[_Batch], rate: Tensor
) -> tuple[_Networks, list[Tensor]]:
    """Generator and embedder a few times, then the discriminator once."""
    losses: list[Tensor] = []
    for batch in batches[:-1]:
        state, losses = _generator_step(p, net, state, batch, rate)
    state, loss = _discriminator_step(p, net, state, batches[-1], rate)
    return state, [loss, *losses]


def _generator_step(
    p: Parameters, net: _Networks, state: _Networks, batch: _Batch, rate: Tensor
) -> tuple[_Networks, list[Tensor]]:
    """Generator and supervisor by their loss, embedder and recovery by theirs, from one pass through the networks.

    Each network runs once, on all that goes through it side by side: a wider batch costs less than another pass.
    """
    weights = [old.weights for old in state[:4]]
    size = batch.x.shape[2]
    weight_ratio = []  # of the next-step error: in the embedder's loss to in the generator's, known after the pass

    @tf.custom_gradient
    def for_embedder(latent: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return tf.identity(latent), lambda slope: slope * weight_ratio[0]

    with tf.GradientTape() as tape:
        tape.watch(weights)
        embedder, recovery, generator, supervisor = weights
        latent = apply(net.embedder, embedder, batch.x, "weights")
        early = apply(net.generator, generator, batch.noise, "weights")
        shown = for_embedder(latent)
        supervised, fake = tf.split(apply(net.supervisor, supervisor, tf.concat([shown, early], 2)), 2, axis=2)
        # Recovery learns from the real half alone, the discriminator from neither.
        recovered, generated = tf.split(
            apply(net.recovery, recovery, tf.concat([latent, fake], 2), teachers=size), 2, axis=2
        )
        verdicts = apply(net.discriminator, state.discriminator.weights, tf.concat([fake, early], 2), "series")

        unsupervised, unsupervised_early, moments = _generator_losses(
            batch.x, generated, *tf.split(verdicts, 2, axis=2), batch.real
        )
        forecast = _root(_supervised_loss(shown, supervised, batch.real))
        reconstruction = _root(_reconstruction_loss(batch.x, recovered, batch.real))
        loss = unsupervised + p.gamma * unsupervised_early
        loss += p.supervised_weight * forecast + p.moment_weight * moments
        loss += p.reconstruction_weight * reconstruction
    # Their losses weigh the error itself and its root: slopes w_e and w_g / (2 root).
    weight_ratio.append(2.0 * forecast * p.embedder_supervised_weight / p.supervised_weight)
    slopes = tape.gradient(loss, weights)
    moved = [old.step(slope, rate) for old, slope in zip(state[:4], slopes, strict=True)]
    return _Networks(*moved, state.discriminator), [unsupervised, forecast, moments, reconstruction]


def _discriminator_step(
    p: Parameters, net: _Networks, state: _Networks, batch: _Batch, rate: Tensor
) -> tuple[_Networks, Tensor]:
    early = apply(net.generator, state.generator.weights, batch.noise, "weights")
    fake = apply(net.supervisor, state.supervisor.weights, early, "weights")
    latent = apply(net.embedder, state.embedder.weights, batch.x, "weights")
    weights = state.discriminator.weights
    with tf.GradientTape() as tape:
        tape.watch(weights)
        real_verdict = apply(net.discriminator, weights, latent, "weights")
        verdicts = tf.split(apply(net.discriminator, weights, tf.concat([fake, early], 2), "weights"), 2, axis=2)
        loss = _discriminator_loss(real_verdict, *verdicts, batch.real, p.gamma)
    slope = tape.gradient(loss, weights)
    moved = state.discriminator.step(slope, rate, loss > p.discriminator_threshold)
    return state._replace(discriminator=moved), loss


# -------------------------------------------------------------------------------------------------- the three phases


class _Phase(NamedTuple):
    name: str
    step: _Step
    iterations: int
    batches: int  # drawn for a step
    losses: tuple[str, ...]


def _phases(p: Parameters) -> list[_Phase]:
    joint = ("discriminator", "generator", "supervised", "moments", "reconstruction")
    return [
        _Phase("embedding", _embedding_step, p.embedding_iterations, 1, ("reconstruction",)),
        _Phase("supervised", _supervised_step, p.supervised_iterations, 1, ("supervised",)),
        _Phase("joint", _joint_step, p.joint_iterations, p.generator_steps + 1, joint),
    ]


@functools.cache
def _compiled(phase: _Phase, parameters: Parameters, net: _Networks) -> Callable[..., tuple[_Networks, Tensor]]:
    """Compile a function that takes `steps` steps, at most as many as `rows` [steps, batches, B] has.

    Each shape of data is compiled for once. The last call of a phase may take fewer steps. It has the same shape, so it
    needs no second compilation.
    """

    def batch(values: Tensor, lengths: Tensor, rows: Tensor, seed: Tensor) -> _Batch:
        time_points, features = values.shape[1:]
        real = tf.range(time_points)[:, None] < tf.gather(lengths, rows)
        noise = tf.random.stateless_uniform([time_points, features, rows.shape[0]], seed)
        return _Batch(tf.transpose(tf.gather(values, rows), [1, 2, 0]), noise, tf.cast(real, tf.float32)[:, None, :])

    @tf.function(autograph=False)
    def run(
        state: _Networks, values: Tensor, lengths: Tensor, steps: Tensor, rates: Tensor, rows: Tensor, seeds: Tensor
    ) -> tuple[_Networks, Tensor]:
        def step(i: Tensor, state: _Networks, losses: Tensor) -> tuple[Tensor, ...]:
            drawn = [batch(values, lengths, rows[i, k], seeds[i, k]) for k in range(phase.batches)]
            state, told = phase.step(parameters, net, state, drawn, rates[i])
            return i + 1, state, losses.write(i, tf.stack(told))

        losses = tf.TensorArray(tf.float32, steps, element_shape=[len(phase.losses)])
        _, state, losses = tf.while_loop(lambda i, *_: i < steps, step, (0, state, losses), parallel_iterations=1)
        return state, losses.stack()

    return run


def train(series: _Series, parameters: Parameters, seed: int, progress: bool = True) -> _Networks:
    """Run the three phases and return the weights of each network.

    A run longer than `checkpoint_minutes` keeps its state in `checkpoint`. Started again with the same data,
    parameters and seed it continues from there, to the same result.

    Raises
    ------
    UserError
        When a loss is no longer a number: names the phase and the step.
    """
    net = _networks(parameters, series.values.shape[2])
    phases = _phases(parameters)
    size = min(parameters.batch, len(series.values))
    values, lengths = tf.constant(series.values), tf.constant(series.lengths, tf.int32)
    weights = [network.first_weights(np.random.default_rng([seed, i])) for i, network in enumerate(net)]
    state, place = _Networks(*map(Adam.begin, weights)), (0, 0)

    checkpoint = _Checkpoint.of(series, parameters, seed)
    if checkpoint:
        state, place = checkpoint.load(state)
    for number, phase in enumerate(phases):
        if number < place[0]:
            continue
        first = place[1] if number == place[0] else 0
        if first == 0:
            state = _Networks(*(Adam.begin(old.weights) for old in state))
        run = _compiled(phase, parameters, net)
        label = f"TimeGAN, {phase.name}"
        with progress_bar(phase.iterations, label, "step", progress, done=first) as bar:
            for step in range(first, phase.iterations, STEPS_PER_CALL):
                steps = min(STEPS_PER_CALL, phase.iterations - step)
                draws = _draws([seed, number, step], STEPS_PER_CALL, phase.batches, len(values), size)
                rates = _rates(parameters, phase, step)
                state, losses = run(state, values, lengths, tf.constant(steps), rates, *draws)
                losses = losses.numpy()
                _check_finite(losses, phase.name, step)
                bar.set_postfix(dict(zip(phase.losses, losses[-1].round(4).tolist(), strict=True)), refresh=False)
                bar.update(steps)
                if checkpoint:
                    checkpoint.save_now_and_then(state, (number, step + steps))
    if checkpoint:
        checkpoint.remove()
    _check_finite(np.array([[old.weights.numpy().sum() for old in state]]), phases[-1].name, phases[-1].iterations - 1)
    return _Networks(*(old.weights for old in state))


def _rates(p: Parameters, phase: _Phase, first: int) -> Tensor:
    """Learning rates of one call's steps."""
    falling = p.decay * phase.iterations if phase.name == "joint" else 0.0
    left = phase.iterations - first - np.arange(STEPS_PER_CALL)
    share = np.clip(left / falling, 0, 1) if falling else np.ones(STEPS_PER_CALL)
    return tf.constant(p.learning_rate * 0.5 * (1 - np.cos(np.pi * share)), tf.float32)


def _draws(seed: list[int], steps: int, batches: int, stays: int, size: int) -> tuple[Tensor, Tensor]:
    """Draw the stays of each batch, without replacement, and a seed for its noise."""
    rng = np.random.default_rng(seed)
    rows = [[rng.choice(stays, size, replace=False) for _ in range(batches)] for _ in range(steps)]
    seeds = rng.integers(2**31, size=(steps, batches, 2))
    return tf.constant(np.array(rows), tf.int32), tf.constant(seeds, tf.int32)


def _check_finite(losses: np.ndarray, phase: str, first: int) -> None:
    bad = ~np.isfinite(losses).all(axis=1)
    if bad.any():
        step = first + int(np.argmax(bad)) + 1
        raise UserError(
            f"training diverged: in the {phase} phase, step {step}, a loss is not finite. Lower learning_rate"
        )


def generate(series: _Series, weights: _Networks, parameters: Parameters, stays: int, seed: int) -> np.ndarray:
    """Generate stays: noise through generator, supervisor and recovery, back in the units of the data.

    Returns
    -------
    ndarray of float64, shape [stays, T, F]
    """
    rng = np.random.default_rng([seed, len(_phases(parameters))])
    time_points, features = series.values.shape[1:]
    net, size = _networks(parameters, features), min(parameters.batch, len(series.values))
    lengths = rng.choice(series.lengths, stays)
    data = np.full((stays, time_points, features), PADDING_FILL)
    for first in range(0, stays, size):
        part = lengths[first : first + size]
        latent = apply(net.generator, weights.generator, _noise(rng, time_points, features, size), "weights")
        latent = apply(net.supervisor, weights.supervisor, latent, "weights")
        scaled = apply(net.recovery, weights.recovery, latent, "series").numpy().transpose(2, 0, 1)[: len(part)]
        ahead, real = np.arange(time_points) < part[:, None], ~front_padding(part, time_points, 1)[:, :, 0]
        data[first : first + size][real] = series.low + scaled[ahead] * series.span
    return data


def _noise(rng: np.random.Generator, *shape: int) -> Tensor:
    return tf.constant(rng.random(shape, dtype=np.float32))


# ---------------------------------------------------------------------------------------------------- checkpoints


class _Checkpoint:
    """The state of a run in one file of plain arrays, readable by its owner only: weights tell of the data.

    The name holds a digest of data, parameters and seed, so that a file can only continue its own run.
    """

    def __init__(self, path: Path, minutes: float) -> None:
        self._path, self._seconds, self._saved = path, 60 * minutes, time.monotonic()

    @classmethod
    def of(cls, series: _Series, parameters: Parameters, seed: int) -> "_Checkpoint | None":
        if parameters.checkpoint is None:
            return None
        told = dataclasses.replace(parameters, checkpoint=None, checkpoint_minutes=0.0)
        digest = hashlib.sha256(f"{told}{seed}{series.values.shape}".encode())
        digest.update(series.values.data)
        digest.update(np.ascontiguousarray(series.lengths).data)
        return cls(
            Path(parameters.checkpoint) / f"timegan-{digest.hexdigest()[:16]}.npz", parameters.checkpoint_minutes
        )

    def load(self, state: _Networks) -> tuple[_Networks, tuple[int, int]]:
        """Return the kept state and the (phase, step) to go on from. Without a file, what was given."""
        if not self._path.is_file():
            return state, (0, 0)
        with np.load(self._path, allow_pickle=False) as arrays:
            parts = [[arrays[f"{name}_{part}"] for part in Adam._fields] for name in _Networks._fields]
            phase, step = (int(n) for n in arrays["place"])
        tqdm.write(f"TimeGAN: continuing from {self._path}")
        return _Networks(*(Adam(*map(tf.constant, part)) for part in parts)), (phase, step)

    def save_now_and_then(self, state: _Networks, place: tuple[int, int]) -> None:
        """Save if the last time is long enough ago. Where nothing can be written, say so once and go on without."""
        if time.monotonic() - self._saved >= self._seconds:
            try:
                self.save(state, place)
            except OSError as error:
                tqdm.write(f"TimeGAN: going on without checkpoints: {self._path.parent}: {error.strerror}")
                self._seconds = float("inf")
            self._saved = time.monotonic()

    def save(self, state: _Networks, place: tuple[int, int]) -> None:
        """Write the file whole or not at all."""
        arrays = {f"{n}_{f}": getattr(a, f).numpy() for n, a in state._asdict().items() for f in Adam._fields}
        with atomic_path(self._path) as temporary, temporary.open("wb") as file:
            np.savez(file, place=np.array(place), **arrays)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
