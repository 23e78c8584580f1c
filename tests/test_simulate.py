"""The simulated stays have what attacks live on, and one seed gives one file."""

import hashlib

import numpy as np
import polars
import pytest
from conftest import ROOT

from scoring.data import longitudinal, simulate
from utils.data_preprocess import load_and_reshape
from utils.errors import UserError

DIGEST = "9ed7d1e24f438b2af3663b2072783f2a47fc6c9c31ca370c6527847293009b49"


@pytest.fixture(scope="module")
def stays():
    return simulate.simulate(600, 70, seed=0)


def values(table, name):
    return table[name].drop_nulls()


def per_stay(table):
    """One row per stay of more than ten rows: its mean lactate, share measured and rows per hour."""
    features = table.columns[2:]
    return (
        table.group_by("admissionid")
        .agg(
            polars.col("lactate").mean(),
            polars.len().alias("rows"),
            polars.col("time").max().alias("hours"),
            polars.mean_horizontal(polars.col(name).is_not_null().mean() for name in features).alias("share"),
        )
        .filter((polars.col("rows") > 10) & polars.col("lactate").is_not_null())
    )


def rank_correlation(table, one, other):
    return table.select(polars.corr(one, other, method="spearman")).item()


def test_there_are_as_many_stays_and_features_as_asked_in_order(stays):
    assert stays.width == 72
    assert stays.columns[:4] == ["admissionid", "time", "heart_rate", "mean_arterial_pressure"]
    assert stays["admissionid"].unique().sort().to_list() == list(range(1, 601))
    assert stays.select("admissionid", "time").equals(stays.select("admissionid", "time").sort("admissionid", "time"))
    assert not stays.select("admissionid", "time").is_duplicated().any()


def test_lengths_run_from_1_to_over_100_rows(stays):
    lengths = stays.group_by("admissionid").len()["len"]
    assert lengths.min() == 1
    assert lengths.max() > 150
    assert 0.05 < (lengths > 100).mean() < 0.4


def test_sampling_times_are_irregular_and_each_patient_has_its_own_pace(stays):
    gaps = stays.with_columns(polars.col("time").diff().over("admissionid").alias("gap")).drop_nulls("gap")
    assert gaps["gap"].min() > 0
    assert gaps["gap"].std() > 0.5 * gaps["gap"].mean()
    pace = gaps.group_by("admissionid").agg(polars.col("gap").median(), polars.len()).filter(polars.col("len") > 20)
    assert pace["gap"].quantile(0.9) > 1.5 * pace["gap"].quantile(0.1)


def test_70_to_90_percent_is_missing_and_vitals_are_measured_more_than_labs(stays):
    missing = {name: stays[name].null_count() / stays.height for name in stays.columns[2:]}
    assert 0.7 < np.mean(list(missing.values())) < 0.9
    assert missing["heart_rate"] < 0.4 < 0.8 < missing["creatinine"] < 1
    assert missing["lab_1"] > 0.8


def test_every_row_holds_a_value(stays):
    assert (
        not stays.select(polars.all_horizontal(polars.all().exclude("admissionid", "time").is_null())).to_series().any()
    )


def test_sicker_patients_are_measured_more_often(stays):
    assert rank_correlation(per_stay(stays), "lactate", "share") > 0.3
    denser = per_stay(stays).with_columns((polars.col("rows") / polars.col("hours")).alias("pace"))
    assert rank_correlation(denser, "lactate", "pace") > 0.3


def test_features_move_together_through_latent_states(stays):
    assert stays.select(polars.corr("mean_arterial_pressure", "systolic_pressure")).item() > 0.3
    assert stays.select(polars.corr("lactate", "ph")).item() < -0.2


def test_a_patient_resembles_itself_more_than_others(stays):
    """Half to most of a vital sign's variance lies between patients; a seeker lives on it."""
    rate = stays.drop_nulls("heart_rate").group_by("admissionid").agg(polars.col("heart_rate").var(), polars.len())
    rate = rate.filter(polars.col("len") > 1)
    within = np.average(rate["heart_rate"], weights=rate["len"] - 1)
    assert 0.4 < 1 - within / stays["heart_rate"].var() < 0.8


def test_values_lie_in_the_ranges_of_real_signals_at_charted_precision(stays):
    for feature in simulate.FEATURES:
        found = values(stays, feature.name)
        assert feature.low <= found.min() <= found.max() <= feature.high
        assert found.round(feature.decimals).equals(found), feature.name
        if feature.scale == "normal":
            assert abs(found.median() - feature.centre) < 1.5 * feature.spread, feature.name
    assert set(values(stays, "mechanical_ventilation")) == {0.0, 1.0}


def test_the_same_seed_gives_the_same_bytes_on_every_machine(tmp_path):
    """The digest was taken once; another processor, system or library version must not change it."""
    longitudinal.write_table([simulate.simulate(20, 50, seed=3)], tmp_path / "a.csv")
    assert hashlib.sha256((tmp_path / "a.csv").read_bytes()).hexdigest() == DIGEST


def test_another_seed_gives_other_stays():
    assert not simulate.simulate(5, 8, seed=1).equals(simulate.simulate(5, 8, seed=2))


def test_a_seeds_first_stays_do_not_depend_on_how_many_follow():
    few, many = simulate.simulate(30, 10, seed=5), simulate.simulate(300, 10, seed=5)
    assert many.filter(polars.col("admissionid") <= 30).equals(few)


def test_blocks_are_not_copies_of_each_other(stays):
    lengths = stays.group_by("admissionid", maintain_order=True).len()["len"].to_list()
    assert lengths[:256] != lengths[256:512]


def test_written_block_by_block_it_is_the_same_table_and_can_be_loaded(tmp_path, stays):
    said = longitudinal.write_table(simulate.tables(600, 70, 0), tmp_path / "stays.csv")
    assert polars.read_csv(tmp_path / "stays.csv", schema=stays.schema).equals(stays)
    assert "600 stays" in said
    assert f"{stays.height:,} rows" in said
    data, _ = load_and_reshape(tmp_path / "stays.csv", 100)
    assert data.shape == (600, 100, 71)


@pytest.mark.parametrize("bad", [{"stays": 1}, {"stays": -5}, {"features": 0}, {"seed": -1}])
def test_a_number_out_of_range_is_named(bad):
    (name,) = bad
    with pytest.raises(UserError, match=f"^{name} must be at least"):
        simulate.simulate(**({"stays": 10, "features": 3, "seed": 0} | bad))


def test_the_readme_states_the_share_missing(stays):
    share = stays.select(polars.all().exclude("admissionid", "time").null_count()).sum_horizontal().item()
    assert f"{share / (stays.height * 70):.0%}".replace("%", " %") in (ROOT / "data" / "README.md").read_text()
