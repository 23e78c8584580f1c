"""What loading a longitudinal CSV must do, and say when it cannot."""

import os
import re

import numpy as np
import pytest
from conftest import SHARED_DATA

from utils.data_preprocess import load_and_reshape
from utils.data_utils import data_division
from utils.errors import UserError
from utils.solutions import load_data

ROWS = "admissionid,time,hr,ph\n7,2.5,80,7.4\n3,0,70,\n7,1,81,7.3\n3,1,71,7.2\n3,2,72,7.1\n"


def load(tmp_path, text, max_seq_len=4, **options):
    path = tmp_path / "data.csv"
    path.write_text(text)
    return load_and_reshape(path, max_seq_len, **options)


def test_stays_ascend_rows_keep_file_order_and_padding_is_at_the_front(tmp_path):
    data, mask = load(tmp_path, ROWS)
    assert data.shape == mask.shape == (2, 4, 3)
    np.testing.assert_array_equal(data[0], [[-1, -1, -1], [0, 70, np.nan], [1, 71, 7.2], [2, 72, 7.1]])
    np.testing.assert_array_equal(data[1], [[-1, -1, -1], [-1, -1, -1], [2.5, 80, 7.4], [1, 81, 7.3]])
    np.testing.assert_array_equal(mask[:, :, 0], [[True, False, False, False], [True, True, False, False]])
    assert (mask == mask[:, :, :1]).all()


def test_only_the_first_time_points_of_a_long_stay_are_kept(tmp_path):
    data, mask = load(tmp_path, ROWS, max_seq_len=2)
    assert data[0, :, 1].tolist() == [70, 71]
    assert not mask.any()


def test_a_first_column_without_meaning_is_dropped(tmp_path):
    plain, _ = load(tmp_path, ROWS)
    for name in ("Unnamed: 0", ""):
        lines = ROWS.splitlines()
        numbered = [f"{name},{lines[0]}"] + [f"{i},{line}" for i, line in enumerate(lines[1:])]
        np.testing.assert_array_equal(load(tmp_path, "\n".join(numbered))[0], plain)


def test_debug_data_reads_only_the_first_rows(tmp_path):
    data, _ = load(tmp_path, ROWS, debug_data=2)
    assert data.shape[0] == 2
    assert (data[:, :, 1] > 0).sum() == 2


def test_stays_may_be_named_by_text(tmp_path):
    data, _ = load(tmp_path, "admissionid,time,hr\nb,0,2\na,0,1\n", max_seq_len=1)
    assert data[:, 0, 1].tolist() == [1, 2]


def test_a_value_that_is_minus_one_is_not_taken_for_padding(tmp_path):
    data, mask = load(tmp_path, "admissionid,time,base_excess\n1,0,-1\n2,0,3\n", max_seq_len=1)
    assert data[0, 0, 1] == -1
    assert not mask.any()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("admissionid,time,hr\n", "no rows"),
        ("id,time,hr\n1,0,3\n", "no column 'admissionid'"),
        ("admissionid,hr\n1,3\n", "no column 'time'"),
        ("admissionid,time,hr\n1,0,80\n1,1,high\n", "column 'hr', row 3 is not a number: 'high'"),
        ("admissionid,time,hr\n1,noon,80\n", "column 'time', row 2"),
        ("admissionid,time,hr\n1,0,80\n2,0,inf\n", "column 'hr', row 3 is infinite"),
        ("admissionid,time,hr\n1,0,80\n,0,81\n", "row 3 has no admissionid"),
    ],
)
def test_bad_files_are_refused_in_one_line_that_says_where(tmp_path, text, expected):
    with pytest.raises(UserError, match=re.escape(expected)) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_numbers_are_read_to_the_last_digit(tmp_path, rng):
    numbers = rng.lognormal(0, 20, 500)
    text = "admissionid,time,x\n" + "".join(f"{i},0,{number!r}\n" for i, number in enumerate(numbers.tolist()))
    np.testing.assert_array_equal(load(tmp_path, text, max_seq_len=1)[0][:, 0, 1], numbers)


def test_the_split_is_the_permutation_2020_drew():
    parts, indices = data_division(np.arange(10) * 10, seed=0, divide_rates=[0.5, 0.5])
    expected = np.random.RandomState(0).permutation(10)
    np.testing.assert_array_equal(np.concatenate(indices), expected)
    assert [len(part) for part in parts] == [5, 5]
    assert parts[0] == (expected[:5] * 10).tolist()


def test_rates_that_do_not_sum_to_one_are_refused():
    with pytest.raises(ValueError, match="sum to 1"):
        data_division(np.arange(10), 0, [0.5, 0.4])


def test_load_data_keeps_what_it_read_beside_the_csv(tmp_path):
    (tmp_path / "data.csv").write_text(ROWS)
    first = load_data(str(tmp_path), "data.csv", 4, 0, 0.5, force_reprocess=True)
    (tmp_path / "data.csv").unlink()
    kept = load_data(str(tmp_path), "data.csv", 4, 0, 0.5, force_reprocess=False)
    for before, after in zip(first, kept, strict=True):
        np.testing.assert_array_equal(before, after)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.npz"]
    *_, train, _ = load_data(str(tmp_path), "data.csv", 4, 1, 0.5, force_reprocess=False)
    assert train.tolist() == data_division(range(len(first[0])), 1, [0.5, 0.5])[1][0].tolist()


def test_load_data_reads_again_what_was_read_otherwise_or_has_changed(tmp_path):
    (tmp_path / "data.csv").write_text(ROWS)
    load_data(str(tmp_path), "data.csv", 4, 0, 0.5, force_reprocess=True)
    assert load_data(str(tmp_path), "data.csv", 2, 0, 0.5, force_reprocess=False)[0].shape[1] == 2
    (tmp_path / "data.csv").write_text(ROWS.replace("80", "90"))
    os.utime(tmp_path / "data.csv", (2**31, 2**31))
    changed = load_data(str(tmp_path), "data.csv", 2, 0, 0.5, force_reprocess=False)[0]
    np.testing.assert_array_equal(changed, load_data(str(tmp_path), "data.csv", 2, 0, 0.5, force_reprocess=True)[0])


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="real data (../shared/data) is not on this machine")
def test_set_a_loads_and_preprocesses_as_the_2020_kit_did():
    from scoring.data import physionet
    from utils.data_preprocess import preprocess_data, reshape_longitudinal

    data, mask = reshape_longitudinal(physionet.read([SHARED_DATA / "physionet2012-set-a.tar.gz"]), 100)
    assert data.shape == (4000, 100, 38)
    assert (np.isnan(data).sum(), mask.sum()) == (8_920_918, 4_380_412)
    assert f"{np.nansum(data):.3f}" == "124167389.052"
    _, (train, test) = data_division(data, 0, [0.5, 0.5])
    assert train[:8].tolist() == [2230, 668, 3616, 2363, 142, 538, 1791, 410]
    assert test[:8].tolist() == [2747, 2788, 1411, 3752, 2115, 2640, 1263, 2271]
    processed, imputed = preprocess_data(data[train], mask[train])
    assert (f"{np.nansum(processed):.6f}", np.isnan(processed).sum()) == ("1001572.393834", 4_464_171)
    assert f"{imputed.sum():.6f}" == "2115909.096772"
    means = [imputed[:, :, feature][~mask[train][:, :, feature]].mean() for feature in range(5)]
    assert [f"{mean:.6f}" for mean in means] == ["20.573972", "0.044952", "0.009697", "0.008584", "0.460568"]
