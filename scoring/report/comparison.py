"""What the report plots: how original and generated data compare, as small arrays."""

import numpy as np

from scoring.report.arrays import ReportArrays
from scoring.report.projections import feature_means, project
from scoring.report.utility_plots import StaysBeside
from scoring.round import Round
from scoring.utility.observed import Observed, Stays
from utils.data_preprocess import FeatureStatistics, preprocess_imputed
from utils.distances import nearest_neighbours
from utils.stays import padded_rows, stay_lengths

PROJECTED_STAYS = 300  # of members and of generated stays: as many points as a small plot can show
SAMPLED_STAYS = 2000  # of members and of non-members: enough for a smooth curve, and the cost stays bounded
BINS = 40
_STAYS_BESIDE = 3  # real stays shown beside a released one


def compare(
    round_: Round, generated: np.ndarray, generated_mask: np.ndarray | None, rng: np.random.Generator
) -> ReportArrays:
    """Compute the arrays behind the report's plots.

    Parameters
    ----------
    round_ : Round
        The stays of both sides. Its members are in the order of `generated`.
    generated : ndarray, shape [N, T, F]
    generated_mask : ndarray of bool, shape [N, T, F], or None
    rng : numpy.random.Generator
        Draws which stays are sampled.
    """
    data, padding_mask, members = round_.data, round_.padding_mask, round_.members
    others = np.flatnonzero(~round_.truth)
    sampled_members = rng.permutation(members)[:SAMPLED_STAYS]
    sampled_others = rng.permutation(others)[:SAMPLED_STAYS]
    sample = np.concatenate([sampled_members, sampled_others])
    # One scale for both, the enlarged data's: a copy of a stay must lie at distance 0.
    scale = FeatureStatistics(data, padding_mask)
    scaled = preprocess_imputed(data[sample], padding_mask[sample], statistics=scale)[:, :, 1:]
    references = preprocess_imputed(generated, generated_mask, statistics=scale)[:, :, 1:]
    distances = nearest_neighbours(scaled, references)[0] / np.sqrt(max(1, scaled[0].size))

    drawn = rng.permutation(len(references))[:PROJECTED_STAYS]
    projections = project(
        feature_means(scaled[: min(len(sampled_members), PROJECTED_STAYS)]),
        feature_means(references[drawn]),
        int(rng.integers(2**31)),
    )
    shown = int(np.argmin(padding_mask[members, :, 0].sum(axis=1)))  # the longest series: most to see
    stay = members[shown]
    return ReportArrays(
        member_distances=distances[: len(sampled_members)],
        non_member_distances=distances[len(sampled_members) :],
        original_stay=data[stay],
        generated_stay=generated[shown],
        original_stay_padded=padding_mask[stay, :, 0],
        generated_stay_padded=_padded_steps(generated, generated_mask, shown),
        histograms=_histograms(data, padding_mask, members, generated, generated_mask),
        labels=round_.truth,
        scores=None,
        projections=projections,
        beside=_beside(round_, generated, generated_mask, rng),
    )


def _beside(
    round_: Round, generated: np.ndarray, generated_mask: np.ndarray | None, rng: np.random.Generator
) -> StaysBeside:
    """Draw a released stay of at least median length, and real stays that nobody released."""
    lengths = stay_lengths(padded_rows(generated, generated_mask))
    released = rng.choice(np.flatnonzero(lengths >= np.median(lengths)))
    others = rng.permutation(round_.others)[:_STAYS_BESIDE]
    found = Observed.of(Stays(generated[[released]], None if generated_mask is None else generated_mask[[released]]))
    real = Observed.of(Stays(round_.data[others], round_.padding_mask[others]))
    return StaysBeside(
        found.values[0][found.rows[0]], [stay[rows] for stay, rows in zip(real.values, real.rows, strict=True)]
    )


def _padded_steps(generated: np.ndarray, mask: np.ndarray | None, stay: int) -> np.ndarray:
    return np.zeros(generated.shape[1], bool) if mask is None else mask[stay, :, 0]


def _histograms(
    data: np.ndarray,
    padding_mask: np.ndarray,
    members: np.ndarray,
    generated: np.ndarray,
    generated_mask: np.ndarray | None,
) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Densities of each feature's observed values, members against generated, over the members' central 99.8 %."""
    found = []
    for feature in range(data.shape[2]):
        before = _observed(data[members, :, feature], padding_mask[members, :, feature])
        after = _observed(generated[:, :, feature], None if generated_mask is None else generated_mask[:, :, feature])
        if not before.size:
            continue
        low, high = np.quantile(before, [0.001, 0.999])
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
        # What lies outside is counted in the outermost bins, or a hider's excess would not be seen.
        densities = [np.histogram(np.clip(values, low, edges[-1]), edges)[0] for values in (before, after)]
        widths = np.diff(edges)
        original, hidden = (counts / (max(1, counts.sum()) * widths) for counts in densities)
        found.append((feature, edges, original, hidden))
    return found


def _observed(values: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    kept = ~np.isnan(values)
    if mask is not None:
        kept &= ~mask
    return values[kept]
