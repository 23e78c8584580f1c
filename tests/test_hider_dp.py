"""What the hider with a proof promises, and that nothing a patient brings can break it."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

import hider_dp
from benchmarks import dp_claim
from examples.hider.dp import measure, noise
from examples.hider.dp.copula import Marginals, distributions, latent_correlation
from examples.hider.dp.ranges import RANGES, Range
from scoring.data.simulate import simulate
from utils.errors import UserError

NAMES = ["time", "HR", "GCS", "Lactate", "unheard_of"]
SEEDED = hider_dp.Parameters(seed_noise=True)


def ward(stays=300, seed=0, time_points=30):
    """Stays of a small ward: heart rate has a patient's own level, lactate is rare, the last feature is binary."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, time_points + 1, stays)
    padded = np.arange(time_points) < (time_points - lengths)[:, None]
    data = np.full((stays, time_points, 5), np.nan)
    data[:, :, 0] = np.cumsum(rng.choice([0.5, 1.0, 2.0], (stays, time_points)), axis=1)
    level = rng.standard_normal((stays, 1))
    data[:, :, 1] = np.round(85 + 15 * level + 5 * rng.standard_normal((stays, time_points)))
    data[:, :, 2] = np.clip(np.round(12 - 3 * level), 3, 15)
    data[:, :, 3] = np.exp(0.5 + 0.5 * level + 0.2 * rng.standard_normal((stays, time_points)))
    data[:, :, 4] = level > 1
    data[:, :, 1:4][rng.random((stays, time_points, 3)) > [0.9, 0.4, 0.1]] = np.nan
    data[padded] = -1.0
    return data, np.repeat(padded[:, :, None], 5, axis=2)


def play(data, mask, parameters=SEEDED, seed=1, **more):
    return hider_dp.hider({"data": data, "padding_mask": mask, "seed": seed, **more}, parameters)


# ------------------------------------------------------------------------------------------------------ the noise


def test_the_noise_is_the_discrete_gaussian_it_claims_to_be():
    drawn = noise.discrete_gaussian(200_000, noise.seeded_bits(3)) / noise.SIGMA
    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.std() - 1) < 0.01
    assert abs((drawn**4).mean() - 3) < 0.1
    below = np.mean(drawn[:, None] < np.array([-2.0, -1.0, 0.0, 0.5, 1.5]), axis=0)
    np.testing.assert_allclose(below, [0.02275, 0.15866, 0.5, 0.69146, 0.93319], atol=0.005)
    steps = noise.discrete_gaussian(200_000, noise.seeded_bits(4))
    assert 0.49 < np.mean(steps % 2) < 0.51, "the last bit is noise too"


def test_an_event_has_exactly_its_chance():
    one = np.int64(1) << (2 * noise.SIGMA_BITS + 1)
    for gamma in (0.1, 0.7, 1.0, 2.3):
        happened = noise._happens_exp(np.full(200_000, int(gamma * one)), noise.seeded_bits(5))
        assert abs(happened.mean() - np.exp(-gamma)) < 0.005


def test_secret_noise_differs_and_seeded_noise_repeats():
    assert (noise.discrete_gaussian(50, noise.secret_bits) != noise.discrete_gaussian(50, noise.secret_bits)).any()
    same = [noise.discrete_gaussian(50, noise.seeded_bits(9)) for _ in range(2)]
    np.testing.assert_array_equal(*same)


def test_the_strength_agrees_with_the_maintained_accountant():
    mu = noise.strength(3.0, 1e-5, 10_000)
    accountant = PLDAccountant()
    for share in (0.1, 0.2, 0.7):  # three sums that spend the whole budget
        accountant.compose(dp_accounting.GaussianDpEvent(1 / (mu * share**0.5)))
    assert 2.98 < accountant.get_epsilon(1e-5) <= 3.001


def test_the_ledger_never_spends_more_than_it_has():
    ledger = noise.Ledger(1.0, 100, noise.seeded_bits(0))
    ones = np.ones((10, 2))
    ledger.total("first", ones, np.ones(10, dtype=int), 1.0, 0.8)
    with pytest.raises(RuntimeError, match="budget"):
        ledger.total("second", ones, np.ones(10, dtype=int), 1.0, 0.7)
    with pytest.raises(RuntimeError, match="budget"):
        noise.Ledger(1.0, 1, noise.seeded_bits(0)).total("too many", ones, np.ones(10, dtype=int), 1.0, 0.1)


def no_noise(count, bits):
    return np.zeros(count, dtype=np.int64)


@pytest.mark.parametrize("bad", [1e300, np.inf, np.nan, -1e300, 1e-300, 7.0])
def test_no_vector_adds_more_than_its_bound(monkeypatch, bad):
    monkeypatch.setattr(noise, "discrete_gaussian", no_noise)
    vectors = np.zeros((3, 4))
    vectors[1] = bad
    sums = noise.Ledger(1.0, 100, noise.seeded_bits(0)).total("x", vectors, np.ones(3, dtype=int), 2.0, 0.5).values
    assert np.linalg.norm(sums) <= 2.0 * (1 + 1e-12)


def test_a_patient_with_many_stays_adds_no_more_than_one_with_one(monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussian", no_noise)
    stays = hider_dp.stays_of_same_patient(["a"] * 1000 + ["b"], 1001)
    assert stays[0] == 1000
    assert stays[-1] == 1
    vectors = np.zeros((1001, 2))
    vectors[:1000, 0] = 50.0
    vectors[1000, 1] = 50.0
    sums = noise.Ledger(1.0, 100, noise.seeded_bits(0)).total("x", vectors, stays, 2.0, 0.5).values
    assert sums[0] <= 2.0 * (1 + 1e-12)
    np.testing.assert_allclose(sums, 2.0, rtol=1e-3)


# ------------------------------------------------------------------------------------------------ the neighbour


def extreme(kind, data, mask):
    """One patient, the last, becomes extreme."""
    data, mask = data.copy(), mask.copy()
    if kind == "empty":
        data[-1], mask[-1] = -1.0, True
    elif kind == "missing":
        data[-1], mask[-1] = np.nan, False
    else:
        data[-1], mask[-1] = kind, False
    return data, mask


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["empty", "missing", 1e300, -1e300, np.inf, -1.0, 0.0])
@pytest.mark.parametrize("names", [NAMES, None])
def test_one_extreme_patient_changes_no_shape_no_range_and_no_error(kind, names):
    data, mask = ward()
    usual, usual_mask = play(data, mask, feature_names=names)
    other, other_mask = play(*extreme(kind, data, mask), feature_names=names)
    assert other.shape == usual.shape
    assert other_mask.shape == usual_mask.shape
    for feature in range(1, 5):
        a, b = usual[:, :, feature][~usual_mask[:, :, feature]], other[:, :, feature][~other_mask[:, :, feature]]
        assert np.isfinite(a).any() == np.isfinite(b).any()
        if names is not None and names[feature] in RANGES:
            known = RANGES[names[feature]]
            assert np.nanmin(b) >= known.low
            assert np.nanmax(b) <= known.high
        elif np.isfinite(b).any():
            assert np.nanmax(np.abs(b)) <= 3 * np.nanmax(np.abs(a)) + 5, "one patient moves no bound far"


@pytest.mark.parametrize("names", [NAMES, None])
def test_one_extreme_patient_moves_every_sum_by_no_more_than_its_bound(monkeypatch, names):
    """The claim itself, number by number: with the noise taken out, neighbours differ by at most each sum's bound."""
    monkeypatch.setattr(noise, "discrete_gaussian", no_noise)
    data, mask = ward()
    seen = []

    class Recorder(noise.Ledger):
        def total(self, name, vectors, stays, bound, mu):
            result = super().total(name, vectors, stays, bound, mu)
            seen[-1].append((name, result.values, bound))
            # Both runs go on from the first run's numbers, as the proof of adaptive composition has it.
            at = len(seen[-1]) - 1
            return noise.Total(seen[0][at][1], result.noise)

    monkeypatch.setattr(hider_dp, "Ledger", Recorder)
    for kind in ("empty", 1e300, "missing", -1.0, 90.0):
        seen.append([])
        play(*extreme(kind, data, mask), feature_names=names)
    assert len(seen[0]) >= 9
    for run in seen[1:]:
        for (name, empty, bound), (_, there, same) in zip(seen[0], run, strict=True):
            assert bound == same, name
            assert np.linalg.norm(there - empty) <= bound * (1 + 1e-9), name


def test_the_claim_depends_on_public_things_only():
    claim = hider_dp.privacy_claim(hider_dp.Parameters(), (300, 30, 5), NAMES)
    assert claim["epsilon"] == 3.0
    assert claim["proof"]
    assert 6 < claim["epsilon_if_replaced"] < 7
    assert not hider_dp.privacy_claim(SEEDED, (300, 30, 5))["proof"]
    assert sum(claim["numbers"].values()) < hider_dp.most_numbers(30, 5)


def test_the_claim_counts_the_numbers_that_were_released(monkeypatch):
    ledgers = []

    class Kept(noise.Ledger):
        def total(self, *arguments):
            ledgers.append(self)
            return super().total(*arguments)

    monkeypatch.setattr(hider_dp, "Ledger", Kept)
    for names in (NAMES, None):
        play(*ward(), feature_names=names)
        numbers = hider_dp.privacy_claim(SEEDED, (300, 30, 5), names)["numbers"]
        assert sum(entry[1] for entry in ledgers[-1].entries) == sum(numbers.values())
        assert sum(entry[2] ** 2 for entry in ledgers[-1].entries) == pytest.approx(ledgers[-1].mu ** 2)


# ------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": np.inf}, {"delta": 0}, {"delta": 0.5}, {"share_rows": 0}]
)
def test_a_promise_that_means_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        hider_dp.Parameters(**wrong)


def test_an_epsilon_that_the_discrete_noise_cannot_account_for_is_refused():
    with pytest.raises(ValueError, match="too large"):
        noise.strength(40.0, 1e-5, 10_000)


def test_fewer_than_a_hundred_stays_are_refused():
    with pytest.raises(UserError, match="at least 100 stays"):
        play(*ward(99))


def test_names_of_the_wrong_number_are_refused():
    with pytest.raises(UserError, match="5 names"):
        play(*ward(), feature_names=["time"])
    with pytest.raises(UserError, match="300 entries"):
        play(*ward(), patients=[1, 2])


@pytest.mark.filterwarnings("error")
def test_nothing_measured_at_all_still_gives_a_release():
    data, mask = ward()
    data[:, :, 1:][~mask[:, :, 1:]] = np.nan
    generated, _ = play(data, mask)
    assert np.isnan(generated[:, :, 1:][generated[:, :, 0] >= 0]).mean() > 0.9
    empty, _ = play(np.full_like(data, -1.0), np.ones_like(mask))
    assert empty.shape == data.shape


def test_a_patient_with_a_thousand_stays_is_one_patient():
    data, mask = ward(1200)
    data[200:, :, 1] = np.where(mask[200:, :, 1], -1.0, 170.0)
    generated, _ = play(data, mask, feature_names=NAMES, patients=[*range(200), *["same"] * 1000])
    assert np.nanmean(generated[:, :, 1] > 150) < 0.1


def test_a_custodians_own_ranges_are_used_and_bad_ones_are_named(tmp_path):
    path = tmp_path / "ranges.csv"
    path.write_text("name,low,high,decimals,log\nunheard_of,0,1,0,0\n")
    parameters = hider_dp.Parameters(seed_noise=True, ranges=str(path))
    assert hider_dp.public_ranges(parameters, NAMES, 5)[-1] == Range(0, 1, 0, False)
    for text in (
        "name,low\nx,1\n",
        "name,low,high,decimals,log\nx,2,1,0,0\n",
        "name,low,high,decimals,log\nx,0,1,0,1\n",
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=r"ranges\.csv"):
            hider_dp.public_ranges(parameters, NAMES, 5)
    with pytest.raises(UserError, match="nowhere"):
        hider_dp.public_ranges(hider_dp.Parameters(ranges=str(tmp_path / "nowhere")), NAMES, 5)


# ----------------------------------------------------------------------------------------------------- what it keeps


@pytest.fixture(scope="module")
def much():
    """A large ward at a weak promise: what is kept is the method's, not the noise's."""
    data, mask = ward(3000, seed=2)
    generated, padded = play(data, mask, hider_dp.Parameters(epsilon=8, seed_noise=True), feature_names=NAMES)
    for array, padding in ((data, mask), (generated, padded)):
        array[padding] = np.nan
    return data, generated


def test_marginals_missing_cells_lengths_and_gaps_are_kept(much):
    real, made = much
    for feature, tolerance in ((1, 2.0), (2, 0.5), (3, 0.3)):
        assert abs(np.nanmean(real[:, :, feature]) - np.nanmean(made[:, :, feature])) < tolerance
        share = [np.isfinite(each[:, :, feature]).sum() / np.isfinite(each[:, :, 0]).sum() for each in much]
        assert abs(share[0] - share[1]) < 0.1
    lengths = [np.isfinite(each[:, :, 0]).sum(axis=1) for each in much]
    assert abs(lengths[0].mean() - lengths[1].mean()) < 1
    gaps = [np.diff(each[:, :, 0], axis=1) for each in much]
    for gap in (0.5, 1.0, 2.0):
        shares = [np.mean(np.isclose(each[np.isfinite(each)], gap)) for each in gaps]
        assert abs(shares[0] - shares[1]) < 0.05


def test_a_static_binary_feature_stays_static_and_binary(much):
    _, made = much
    last = made[:, :, 4]
    assert set(np.unique(last[np.isfinite(last)])) == {0.0, 1.0}
    assert (np.nanmin(last, axis=1) == np.nanmax(last, axis=1)).all()
    assert 0.1 < np.nanmean(made[:, -1, 4]) < 0.25


def test_levels_go_together_as_they_did(much):
    correlations = []
    for each in much:
        each = each[np.isfinite(each).any(axis=1)[:, [1, 2, 4]].all(axis=1)]
        means = np.nanmean(each[:, :, [1, 2, 4]], axis=1)
        correlations.append(np.corrcoef(means.T))
    assert np.abs(correlations[0] - correlations[1]).max() < 0.25


def test_the_release_repeats_if_the_noise_is_seeded_and_not_if_it_is_secret():
    data, mask = ward()
    np.testing.assert_array_equal(play(data, mask)[0], play(data, mask)[0])
    secret = [play(data, mask, hider_dp.Parameters())[0] for _ in range(2)]
    assert not np.array_equal(*secret, equal_nan=True)


def test_simulated_stays_without_names_are_released_without_a_warning():
    table = simulate(200, 6, 0)
    assert table.height > 0
    data, mask = ward(200)
    generated, padded = play(data, mask)
    assert (generated[padded] == -1).all()


# --------------------------------------------------------------------------------------------------------- the parts


def test_noisy_counts_become_probabilities():
    shares = distributions(np.array([[-5.0, 50.0, 52.0, -2.0]]), 1.0, 3.0)
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(shares, [[0, 0.49, 0.51, 0]], atol=0.01)


def test_the_correlation_behind_coarse_scores_is_found():
    rng = np.random.default_rng(0)
    coarse = Marginals(np.array([[0.3, 0.7], [0.2, 0.8]]))
    z = rng.standard_normal((400_000, 1)) * 0.8**0.5
    latent = z + rng.standard_normal((400_000, 2)) * 0.2**0.5
    classes = coarse.classes(latent)
    moment = np.mean(coarse.scores[0][classes[:, 0]] * coarse.scores[1][classes[:, 1]])
    found = latent_correlation(np.array(moment), coarse.hermite[0], coarse.hermite[1])
    assert abs(found - 0.8) < 0.05


@pytest.mark.parametrize("known", [Range(3, 15, 0), Range(0.3, 20, 1, True), Range(33, 41, 1), Range(1, 1, 0)])
def test_values_come_back_from_their_classes(known):
    values = np.linspace(known.low, known.high, 50)[None, :, None]
    values = np.round(values, known.decimals)
    classes = measure.to_classes(values[:, :, 0], np.ones((1, 50), dtype=bool), known)
    back = measure.to_values(classes + 0.5, known)
    width = (known.high - known.low) / measure.CLASSES
    tolerance = 0.1 * values[:, :, 0] + 0.1 if known.log else max(width, 10.0**-known.decimals)
    assert (np.abs(back - values[:, :, 0]) <= tolerance + 1e-9).all()


# --------------------------------------------------------------------------------------------------- the claim's audit


def test_the_audit_finds_noise_that_is_too_small_and_leaves_the_correct_hider_alone():
    """One short audit of either; `python -m benchmarks.dp_claim --repeats 20` runs twenty of each."""
    for broken, flagged in ((dp_claim.correct, False), (dp_claim.noise_divided_by_ten, True)):
        with broken():
            found = dp_claim.audit(hider_dp, hider_dp.Parameters(), stays=100, time_points=4, runs=14, seed=0)
        assert found["flagged"] == flagged
        assert found["claimed"] == 3.0


def test_bounds_from_errors_are_what_the_formulas_say():
    miss = dp_claim.upper_rate(0, 100, 0.95)
    assert miss == pytest.approx(1 - 0.025**0.01)
    assert dp_claim.epsilon_any(miss, miss, 0.0) == pytest.approx(np.log((1 - miss) / miss))
    assert dp_claim.epsilon_gaussian(0.5, 0.5, 1e-5) == 0.0
    assert dp_claim.epsilon_gaussian(0.1, 0.1, 1e-5) > 10
