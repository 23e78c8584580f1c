"""TimeGAN learns what it is given, tells what it cannot use, and continues where it was killed."""

import dataclasses
import sys

import numpy as np
import pytest
from conftest import ROOT, SHARED_DATA, make_stays

pytest.importorskip("tensorflow", reason="TimeGAN needs TensorFlow")

import hider_timegan
from examples.hider.timegan import timegan as model
from examples.hider.timegan.missingness import MissingnessModel
from examples.hider.timegan.timegan import timegan
from hider_timegan import Parameters, hider
from utils import files
from utils.data_preprocess import PADDING_FILL
from utils.errors import UserError
from utils.parameters import parse_parameters

# One size for all: compiling, not training, takes the time.
STAYS, TIME_POINTS, FEATURES = 24, 8, 4
TINY = Parameters(
    hidden=4,
    layers=2,
    batch=16,
    embedding_iterations=60,
    supervised_iterations=20,
    joint_iterations=20,
    checkpoint=None,
)


def stays(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return make_stays(np.random.default_rng(seed), STAYS, TIME_POINTS, FEATURES)


def hide(data, mask, seed=0, **changes):
    return hider({"data": data, "padding_mask": mask, "seed": seed}, dataclasses.replace(TINY, **changes))


def learn(data, seed=0, **changes):
    return timegan(data, dataclasses.replace(TINY, **changes), np.random.default_rng(seed), progress=False)


@pytest.fixture(scope="module")
def hidden():
    data, mask = stays()
    return data, mask, *hide(data, mask)


def test_generated_stays_have_the_datas_shape_units_and_padding(hidden):
    data, mask, generated, generated_mask = hidden
    assert generated.shape == data.shape
    assert (generated[generated_mask] == PADDING_FILL).all()
    assert (np.diff(generated_mask[:, :, 0].astype(int), axis=1) <= 0).all(), "padding is at the front"
    for feature in range(1, FEATURES):
        real = data[~mask[:, :, feature], feature]
        made = generated[~generated_mask[:, :, feature], feature]
        assert np.nanmin(real) <= np.nanmin(made) <= np.nanmax(made) <= np.nanmax(real)


def test_generated_lengths_are_lengths_of_the_data(hidden):
    _, mask, _, generated_mask = hidden
    assert set((~generated_mask[:, :, 0]).sum(1)) <= set((~mask[:, :, 0]).sum(1))
    assert len(set((~generated_mask[:, :, 0]).sum(1))) > 1


def test_time_runs_forward_and_starts_where_stays_start(hidden):
    data, mask, generated, generated_mask = hidden
    time = np.where(generated_mask[:, :, 0], -1.0, generated[:, :, 0])
    assert (np.diff(time, axis=1) >= 0).all()
    firsts = np.where(mask[:, :, 0], np.inf, data[:, :, 0]).min(axis=1)
    first = np.where(generated_mask[:, :, 0], np.inf, generated[:, :, 0]).min(axis=1)
    assert firsts.min() <= first.min() <= first.max() <= firsts.max()


def test_the_same_seed_gives_the_same_stays_and_another_seed_others(hidden):
    data, mask, generated, _ = hidden
    again, _ = hide(data, mask)
    np.testing.assert_array_equal(again, generated)
    other, _ = hide(data, mask, seed=1)
    assert not np.array_equal(other, generated, equal_nan=True)


def test_values_go_missing_as_often_as_in_the_data_and_an_option_turns_that_off(hidden):
    data, mask, generated, generated_mask = hidden
    share = np.isnan(data[:, :, 1:])[~mask[:, :, 1:]].mean()
    assert np.isnan(generated[:, :, 1:])[~generated_mask[:, :, 1:]].mean() == pytest.approx(share, abs=0.12)
    assert not np.isnan(generated[:, :, 0]).any(), "time is never missing in the data"
    complete, _ = hide(data, mask, missing=False)
    assert not np.isnan(complete).any()


def test_the_autoencoder_learns_and_the_generated_mean_comes_near_the_datas():
    rng = np.random.default_rng(0)
    data = np.repeat(rng.beta(1, 8, (STAYS, 1, FEATURES)), TIME_POINTS, axis=1) * 40 + 100
    longer = {"embedding_iterations": 800, "supervised_iterations": 200, "joint_iterations": 400}
    untrained = learn(data, embedding_iterations=0, supervised_iterations=0, joint_iterations=0)
    trained = learn(data, **longer)
    wanted = data.mean(axis=(0, 1))
    assert np.abs(trained.mean(axis=(0, 1)) - wanted).mean() < 0.5 * np.abs(untrained.mean(axis=(0, 1)) - wanted).mean()


def test_2020s_call_takes_imputed_data_alone_and_follows_numpys_seed(monkeypatch):
    monkeypatch.setattr(timegan, "__defaults__", (TINY, None, False))
    data = np.random.default_rng(0).random((STAYS, TIME_POINTS, FEATURES))
    np.random.seed(3)
    first = timegan(data)
    np.random.seed(3)
    np.testing.assert_array_equal(timegan(data), first)
    assert first.shape == data.shape


# ----------------------------------------------------------------------------------------------------- awkward data


@pytest.mark.parametrize("count", [1, 5])
def test_fewer_stays_than_a_batch_will_do(count):
    data, mask = stays()
    generated, _ = hide(data[:count], mask[:count])
    assert generated.shape == (count, TIME_POINTS, FEATURES)


def test_one_time_point_will_do():
    data = np.random.default_rng(0).normal(50, 10, (STAYS, 1, FEATURES))
    generated, _ = hide(data, np.zeros(data.shape, bool), missing=False)
    assert np.isfinite(generated).all()


def test_a_constant_feature_stays_constant_and_one_never_observed_stays_missing():
    data, mask = stays()
    data[:, :, 1], data[:, :, 2] = 7.0, np.nan
    data[mask] = PADDING_FILL
    generated, generated_mask = hide(data, mask)
    real = ~generated_mask[:, :, 0]
    assert set(generated[real][:, 1]) == {7.0}
    assert np.isnan(generated[real][:, 2]).all()
    assert np.isfinite(generated[real][:, 0]).all()


def test_a_stay_without_a_time_point_is_left_out():
    data, mask = stays()
    data[0], mask[0] = PADDING_FILL, True
    _, generated_mask = hide(data, mask)
    assert not generated_mask.all(axis=(1, 2)).any()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.full((3, 4, 2), np.nan), "impute first"),
        (np.full((3, 4, 2), np.inf), "impute first"),
        (np.full((3, 4, 2), PADDING_FILL), "nothing but padding"),
        (np.ones((3, 4)), r"\[stays, time points, features\]"),
        (np.ones((0, 4, 2)), r"\[stays, time points, features\]"),
    ],
)
def test_data_it_cannot_learn_from_are_named(data, message):
    with pytest.raises(UserError, match=message):
        learn(data)


def test_training_that_diverges_stops_and_names_phase_and_step():
    data = np.random.default_rng(0).random((STAYS, TIME_POINTS, FEATURES))
    with pytest.raises(UserError, match=r"diverged: in the embedding phase, step \d+.*learning_rate"):
        learn(data, learning_rate=1e38)


@pytest.mark.parametrize(
    "text", ["hidden=0", "layers=1", "joint_iterations=-1", "module=rnn", "learning_rate=0", "decay=2"]
)
def test_parameters_that_make_no_sense_are_refused(text):
    with pytest.raises(UserError):
        parse_parameters(hider_timegan, text)


def test_the_learning_rate_falls_to_0_at_the_end_of_joint_training_and_only_there():
    parameters = Parameters(joint_iterations=100, supervised_iterations=100, learning_rate=0.1, decay=0.5)
    _, supervised, joint = model._phases(parameters)
    rates = [
        np.concatenate([model._rates(parameters, phase, n) for n in range(0, 100, 20)]) for phase in (supervised, joint)
    ]
    np.testing.assert_allclose(rates[0], 0.1, rtol=1e-5)
    np.testing.assert_allclose(rates[1][:51], 0.1, rtol=1e-5)
    np.testing.assert_allclose(rates[1][75], 0.05, rtol=1e-5)
    assert (np.diff(rates[1][50:]) < 0).all()
    assert 0 < rates[1][-1] < 0.001
    published = [model._rates(Parameters(joint_iterations=20), joint, 0)]
    np.testing.assert_allclose(published, 1e-3, rtol=1e-5)


def test_an_lstm_can_take_the_grus_place():
    data = np.random.default_rng(0).random((STAYS, TIME_POINTS, FEATURES))
    assert np.isfinite(
        learn(data, module="lstm", embedding_iterations=1, supervised_iterations=1, joint_iterations=1)
    ).all()


# ------------------------------------------------------------------------------------------------------ checkpoints


class Killed(BaseException):
    pass


@pytest.mark.parametrize("phase", ["embedding", "joint"])
def test_a_killed_run_continues_to_the_result_it_would_have_had(tmp_path, monkeypatch, phase):
    data, _ = stays()
    data = np.nan_to_num(data)
    options = {"embedding_iterations": 60, "joint_iterations": 60, "decay": 0.8, "checkpoint": str(tmp_path)}
    whole = learn(data, **(options | {"checkpoint": None}))

    def die_late(losses, name, first):
        if (name, first) == (phase, 40):
            raise Killed

    options["checkpoint_minutes"] = 0.0
    with monkeypatch.context() as patch:
        patch.setattr(model, "_check_finite", die_late)
        with pytest.raises(Killed):
            learn(data, **options)
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mode & 0o077 == 0, "weights tell of the data: for its owner's eyes"

    steps = []
    with monkeypatch.context() as patch:
        check = model._check_finite
        patch.setattr(model, "_check_finite", lambda *a: (steps.append(a[1:]), check(*a)))
        np.testing.assert_array_equal(learn(data, **options), whole)
    assert steps[0] == (phase, 40)
    assert list(tmp_path.iterdir()) == [], "a finished run leaves nothing behind"


def test_where_nothing_can_be_written_as_in_a_sandbox_training_goes_on(tmp_path, monkeypatch, capsys):
    data, _ = stays()
    data = np.nan_to_num(data)
    options = {"embedding_iterations": 60, "checkpoint_minutes": 0.0}

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.tempfile, "mkstemp", refuse)
    ended = learn(data, **options, checkpoint=str(tmp_path))
    np.testing.assert_array_equal(ended, learn(data, **options, checkpoint=None))
    assert capsys.readouterr().out.count("without checkpoints") == 1


def test_a_checkpoint_continues_only_its_own_run(tmp_path):
    data = np.random.default_rng(0).random((STAYS, TIME_POINTS, FEATURES))
    series, other = (model._Series.from_padded(x) for x in (data, data**2))
    parameters = dataclasses.replace(TINY, checkpoint=str(tmp_path))
    path = model._Checkpoint.of(series, parameters, 0)._path
    assert model._Checkpoint.of(series, parameters, 0)._path == path
    assert model._Checkpoint.of(other, parameters, 0)._path != path
    assert model._Checkpoint.of(series, parameters, 1)._path != path
    assert model._Checkpoint.of(series, dataclasses.replace(parameters, hidden=5), 0)._path != path


# ------------------------------------------------------------------------------------------------------ missingness


def test_missingness_follows_each_feature_and_rows_that_go_together(rng):
    real = np.ones((400, 10), bool)
    panel = rng.random((400, 10)) < 0.3  # features 1 and 2 are one blood draw
    missing = np.stack([np.zeros(panel.shape, bool), ~panel, ~panel, rng.random(panel.shape) < 0.9], axis=2)
    sampled = MissingnessModel.fit(missing, real, rng).sample(real, rng)
    np.testing.assert_allclose(sampled.mean(axis=(0, 1)), missing.mean(axis=(0, 1)), atol=0.03)
    assert (sampled[:, :, 1] == sampled[:, :, 2]).mean() > 0.9


def test_no_stays_missingness_is_copied(rng):
    real = np.ones((300, 20), bool)
    missing = rng.random((300, 20, 8)) < 0.5
    sampled = MissingnessModel.fit(missing, real, rng).sample(real, rng)
    differing = (sampled.reshape(300, 1, -1) != missing.reshape(1, 300, -1)).sum(axis=2)
    assert differing.min() > 20


# ----------------------------------------------------------------------------------------------- the post-hoc scores


def test_the_discriminative_score_is_low_for_like_data_and_high_for_unlike(rng):
    from scoring.utility.posthoc import PosthocModel, discriminative_score

    short = PosthocModel(discriminative_steps=200, width=2.0)
    one, two = rng.random((300, 6, 3)), rng.random((300, 6, 3))
    assert discriminative_score(one, two, 0, short) < 0.2
    assert discriminative_score(one, two * 0.2, 0, short) > 0.45


def test_the_predictive_score_is_low_where_the_last_feature_can_be_foretold(rng):
    from scoring.utility.posthoc import PosthocModel, predictive_score

    short = PosthocModel(predictive_steps=600, width=2.0)
    driver = rng.random((300, 7))
    like = np.stack([driver[:, 1:], driver[:, :-1]], axis=2)  # the last feature repeats the first, a step later
    noise = rng.random(like.shape)
    assert predictive_score(like, like, 0, short) < 0.5 * predictive_score(like, noise, 0, short)


def test_the_stocks_benchmark_cuts_sequences_as_published(rng, monkeypatch):
    path = SHARED_DATA / "google_stock.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from timegan_stocks import sequences

    data = sequences(path, rng)
    assert data.shape == (3662, 24, 6)
    assert data.min() == 0
    assert data.max() == pytest.approx(1)


# ------------------------------------------------------------------------------------------------------- losses


def test_losses_do_not_see_padding(rng):
    x, y = rng.random((2, TIME_POINTS, FEATURES, 5)).astype(np.float32)
    real = (np.arange(TIME_POINTS)[:, None, None] < np.array([1, 3, 8, 8, 5])).astype(np.float32)
    elsewhere = np.where(real > 0, x, 99.0).astype(np.float32)
    for loss in (model._reconstruction_loss, model._supervised_loss, model._moment_difference):
        assert float(loss(x, y, real)) == pytest.approx(float(loss(elsewhere, y, real)), rel=1e-5), loss
    assert float(model._cross_entropy(x[:, :1], 1.0, real)) == pytest.approx(
        float(model._cross_entropy(elsewhere[:, :1], 1.0, real)), rel=1e-5
    )


def test_losses_of_series_of_one_length_are_the_published_ones(rng):
    x, y = rng.random((2, TIME_POINTS, FEATURES, 30)).astype(np.float32)
    real = np.ones((TIME_POINTS, 1, 30), np.float32)
    assert float(model._reconstruction_loss(x, y, real)) == pytest.approx(np.mean((x - y) ** 2), rel=1e-4)
    assert float(model._supervised_loss(x, y, real)) == pytest.approx(np.mean((x[1:] - y[:-1]) ** 2), rel=1e-4)
    spread = [np.sqrt(z.var(axis=2) + 1e-6) for z in (x, y)]
    moments = np.mean(np.abs(x.mean(axis=2) - y.mean(axis=2))) + np.mean(np.abs(spread[0] - spread[1]))
    assert float(model._moment_difference(x, y, real)) == pytest.approx(moments, rel=1e-4)


@pytest.mark.parametrize(("threshold", "learns"), [(0.0, True), (100.0, False)])
def test_the_discriminator_rests_while_its_loss_is_below_the_threshold(rng, threshold, learns):
    parameters = dataclasses.replace(TINY, discriminator_threshold=threshold)
    networks = model._networks(parameters, FEATURES)
    state = model._Networks(*(model.Adam.begin(network.first_weights(rng)) for network in networks))
    x, noise = rng.random((2, TIME_POINTS, FEATURES, 16)).astype(np.float32)
    batch = model._Batch(x, noise, np.ones((TIME_POINTS, 1, 16), np.float32))
    step = model.tf.function(model._discriminator_step, autograph=False)
    new, _ = step(parameters, networks, state, batch, 1e-3)
    assert learns != np.array_equal(new.discriminator.weights, state.discriminator.weights)
    assert np.array_equal(new.generator.weights, state.generator.weights)
