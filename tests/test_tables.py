"""A hospital's own tables: read value by value as they were meant, or refused in one line that says what to do."""

import gzip
import sys

import numpy as np
import pandas
import polars
import pytest
from conftest import ROOT
from polars.testing import assert_frame_equal

import prepare_data
from scoring.data.datasets import load
from scoring.data.hospital import convert
from scoring.data.layout import layout_of
from scoring.data.prepare import prepare_table, write_release_of
from utils.errors import UserError

PLAIN = "admissionid,time,hr,ph\n3,0,70,7.1\n3,1,71,7.2\n7,2.5,80,\n"
EXPECTED = [(3, 0.0, 70.0, 7.1), (3, 1.0, 71.0, 7.2), (7, 2.5, 80.0, None)]


def table(tmp_path, content, name="table.csv", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return convert(path, layout_of(options.pop("like", None), **options))


def refused(tmp_path, content, **options):
    with pytest.raises(UserError) as caught:
        table(tmp_path, content, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def said(converted, text):
    return [note for note in converted.notes if text in note] != []


SEMICOLONS = PLAIN.replace(",", ";").replace(".", ",")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(PLAIN, id="as it should be"),
        pytest.param(b"\xef\xbb\xbf" + PLAIN.encode(), id="byte order mark"),
        pytest.param(PLAIN.replace(",", ";"), id="semicolons"),
        pytest.param(SEMICOLONS, id="semicolons and decimal commas"),
        pytest.param("sep=;\r\n" + SEMICOLONS.replace("\n", "\r\n"), id="Excel's first line"),
        pytest.param(PLAIN.replace(",", "\t"), id="tabs"),
        pytest.param(PLAIN.replace(",", "|"), id="bars"),
        pytest.param(PLAIN.encode("utf-16"), id="UTF-16"),
        pytest.param(PLAIN.encode("utf-16-be"), id="UTF-16 without a mark"),
        pytest.param(gzip.compress(PLAIN.encode()), id="gzip"),
        pytest.param(gzip.compress(SEMICOLONS.encode("utf-16")), id="gzip of UTF-16 with decimal commas"),
        pytest.param("admissionid,time,hr,ph\n7,2.5,80,NA\n3,1,71,7.2\n3,0,70,7.1\n", id="shuffled rows"),
        pytest.param('admissionid,time,hr,ph\n"3","0","70","7,1"\n3,1,71,"7,2"\n7,"2,5",80,\n', id="quoted commas"),
        pytest.param(" admissionid , time , hr , ph \n 3 , 0 , 70 , 7.1 \n3,1,71,7.2\n7,2.5,80, \n", id="spaces"),
        pytest.param("\n\n" + PLAIN, id="empty lines first"),
    ],
)
def test_the_form_of_the_file_does_not_change_a_value(tmp_path, content):
    assert table(tmp_path, content).frame.rows() == EXPECTED


def test_latin_1_names_are_read_and_said(tmp_path):
    converted = table(tmp_path, PLAIN.replace("ph", "größe").encode("latin-1"))
    assert converted.frame.columns == ["admissionid", "time", "hr", "größe"]
    assert said(converted, "not UTF-8")


def test_iso_times_become_hours_since_admission(tmp_path):
    text = (
        "admissionid,time,admitted,hr\n1,2020-03-01 10:30:00,2020-03-01T10:00,80\n"
        "1,2020-03-01T12:00,2020-03-01T10:00,81\n2,2020-02-01,2020-02-01T06:00,70\n"
    )
    converted = table(tmp_path, text, admission="admitted")
    assert converted.frame["time"].to_list() == [0.5, 2.0, -6.0]
    assert said(converted, "1 row before admission")
    assert table(tmp_path, text, drop=("admitted",)).frame["time"].to_list() == [0.0, 1.5, 0.0]


def test_zones_are_heeded_and_never_mixed_with_times_without_one(tmp_path):
    text = "admissionid,time,hr\n1,2020-01-01T10:00:00Z,80\n1,2020-01-01T12:30:00+01:00,81\n"
    assert table(tmp_path, text).frame["time"].to_list() == [0.0, 1.5]
    assert "with a zone and times without" in refused(tmp_path, text.replace("Z", ""))


def test_clock_times_and_named_forms_are_read(tmp_path):
    assert table(tmp_path, "admissionid,time,hr\n1,00:30,5\n1,25:45,6\n").frame["time"].to_list() == [0.5, 25.75]
    german = "admissionid;time;hr\n1;03.02.2020 10:00;5\n1;03.02.2020 11:30;6\n"
    assert "--time_format" in refused(tmp_path, german)
    assert table(tmp_path, german, time_format="%d.%m.%Y %H:%M").frame["time"].to_list() == [0.0, 1.5]


def test_yes_and_no_sexes_and_categories_become_numbers_and_the_coding_is_said(tmp_path):
    text = "admissionid,time,sex,vent,rhythm\na,0,F,true,sinus\na,1,F,FALSE,\nb,0,M,,af\n"
    converted = table(tmp_path, text)
    assert converted.frame.rows() == [("a", 0.0, 0.0, 1.0, 1.0), ("a", 1.0, 0.0, 0.0, None), ("b", 0.0, 1.0, None, 0.0)]
    assert said(converted, "sex: 0 is 'F', 1 is 'M'")
    assert said(converted, "vent: 0 is 'FALSE', 1 is 'true'")


def test_a_value_below_the_detection_limit_becomes_the_limit_and_is_counted(tmp_path):
    converted = table(tmp_path, "admissionid,time,crp\n1,0,<0.9\n1,1,>100\n1,2,3\n")
    assert converted.frame["crp"].to_list() == [0.9, 100.0, 3.0]
    assert said(converted, "2 values beyond a limit")


def test_double_headers_empty_columns_and_single_rows_are_said(tmp_path):
    converted = table(tmp_path, "admissionid,time,hr,hr,lactate\n1,0,70,71,\n")
    assert converted.frame.columns == ["admissionid", "time", "hr", "hr_2", "lactate"]
    assert said(converted, "two columns are called 'hr'")
    assert said(converted, "no value at all")
    assert said(converted, "1 stay with a single row")


def test_text_ids_keep_their_leading_zeros(tmp_path):
    assert table(tmp_path, "admissionid,time,hr\n007,0,1\n7,0,2\n").frame["admissionid"].to_list() == ["007", "7"]


def test_a_stay_of_10_000_rows_is_read_whole(tmp_path):
    rows = "".join(f"1,{i},{i % 7}\n" for i in range(10_000))
    assert table(tmp_path, "admissionid,time,hr\n" + rows).frame.height == 10_000


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (
            "id,time,hr\n1,0,3\n",
            {},
            "no column 'admissionid'; name the right one with --id; the table has id, time, hr",
        ),
        ("admissionid,t,hr\n1,0,3\n", {}, "--time"),
        ("admissionid,time,hr\n1,0,80\n1,1,high\n", {}, "column 'hr', row 2 is not a number, others are: 'high'"),
        ("admissionid,time,hr\n1,0,inf\n", {}, "infinite"),
        ("admissionid,time,hr\n,0,1\n", {}, "row 1 has no 'admissionid'"),
        ('admissionid,time,hr\n1,0,"1\n2,0,3\n', {}, "is a quote left open?"),
        ("admissionid;time;a;b\n1;0;1,5;x\n1;1;1.5;x\n", {}, "--decimal"),
        ("admissionid,time\n1,0\n", {}, "nothing to release"),
        ("admissionid,time,hr,pid\n1,0,1,a\n1,1,1,b\n", {"patient": "pid"}, "an id must name one stay"),
        ("admissionid,time,hr\n1,0,1\n", {"patient": "pid"}, "no column 'pid'"),
        ("admissionid,time,hr\n", {}, "no rows"),
        ("", {}, "is empty"),
        (b"\x1f\x8b\x00broken", {}, "damaged gzip"),
        ("admissionid,time,hr\n1,yesterday,1\n", {}, "not an ISO time: 'yesterday'"),
        ("admissionid,time,item\n1,0,1\n", {"item": "item"}, "both --item and --value"),
        ("admissionid,time,note\n" + "".join(f"1,{i},text{i}\n" for i in range(60)), {}, "--drop note"),
    ],
)
def test_what_cannot_be_read_rightly_is_refused_in_one_line(tmp_path, text, options, expected):
    assert expected in refused(tmp_path, text, **options)


def test_parquet_with_categories_times_and_booleans_is_read(tmp_path):
    path = tmp_path / "icu.parquet"
    pandas.DataFrame(
        {
            "stay": [2, 1, 1],
            "when": pandas.to_datetime(["2020-01-01 10:00", "2020-01-01 10:00", "2020-01-01 13:00"]),
            "sex": pandas.Categorical(["F", "M", "M"]),
            "vent": [True, False, None],
            "hr": [70.5, None, 80.0],
        }
    ).to_parquet(path)
    converted = convert(path, layout_of(None, id="stay", time="when"))
    assert converted.frame.rows() == [(1, 0.0, 1.0, 0.0, None), (1, 3.0, 1.0, None, 80.0), (2, 0.0, 0.0, 1.0, 70.5)]


# ------------------------------------------------------------------------------------------------------ long tables

EVENTS = (
    "subject_id,stay_id,charttime,itemid,value,valuenum\n"
    "10,100,2150-01-01 10:30:00,220045,80,80\n10,100,2150-01-01 10:30:00,220045,84,84\n"
    "10,100,2150-01-01 11:00:00,220210,18,18\n11,200,2150-05-05 00:00:00,220045,60,60\n"
    "12,300,2150-05-05 00:00:00,220045,61,61\n"
)
STAYS = "subject_id,stay_id,intime\n10,100,2150-01-01 10:00:00\n11,200,2150-05-04 22:00:00\n"
ITEMS = "itemid,label\n220045,Heart Rate\n220210,Respiratory Rate\n"


def test_a_mimic_like_table_is_read(tmp_path):
    (tmp_path / "icustays.csv").write_text(STAYS)
    (tmp_path / "d_items.csv").write_text(ITEMS)
    converted = table(
        tmp_path, EVENTS, like="mimic-iv", stays=tmp_path / "icustays.csv", items=tmp_path / "d_items.csv"
    )
    expected = polars.DataFrame(
        {
            "admissionid": [100, 100, 200],
            "time": [0.5, 1.0, 2.0],
            "patientid": [10, 10, 11],
            "Heart Rate": [82.0, None, 60.0],
            "Respiratory Rate": [None, 18.0, None],
        }
    )
    assert_frame_equal(converted.frame, expected)
    assert said(converted, "left out: 1 stay (1 row) not in icustays.csv")
    assert said(converted, "averaged: 1 further value")


def test_an_omop_like_table_is_read(tmp_path):
    text = (
        "person_id,visit_occurrence_id,measurement_datetime,measurement_concept_id,value_as_number\n"
        "1,5,2020-01-01T10:00:00,3027018,80\n1,6,2020-02-01T10:00:00,3027018,81\n"
    )
    converted = table(tmp_path, text, like="omop")
    assert converted.frame.columns == ["admissionid", "time", "patientid", "3027018"]
    assert said(converted, "2 stays of 1 patient")


def test_long_values_that_are_no_numbers_are_coded_or_counted(tmp_path):
    text = "s,t,i,v\n1,0,CRP,<3\n1,1,CRP,7\n1,2,CRP,clotted\n1,0,RHY,sinus\n1,1,RHY,af\n1,1,HR,60\n"
    converted = table(tmp_path, text, id="s", time="t", item="i", value="v")
    assert converted.frame.select("time", "CRP", "HR", "RHY").rows() == [
        (0.0, 3.0, None, 1.0),
        (1.0, 7.0, 60.0, 0.0),
    ]
    assert said(converted, "left out 1 value without a number, such as 'clotted'")


def test_only_the_most_frequent_items_are_kept_if_wished(tmp_path):
    text = "s,t,i,v\n1,0,a,1\n2,0,a,1\n2,0,b,1\n"
    converted = table(tmp_path, text, id="s", time="t", item="i", value="v", most=1)
    assert list(converted.columns) == ["a"]
    assert said(converted, "left out: 1 of 2 items")


# -------------------------------------------------------------------------------- into a match and out of it again


def test_cut_stays_and_unsorted_rows_are_said_when_data_are_loaded(tmp_path):
    path = tmp_path / "stays.csv"
    path.write_text("admissionid,time,hr\n" + "".join(f"1,{10 - i},5\n" for i in range(5)) + "2,0,1\n")
    warnings = load(path, 3).warnings
    assert any(
        "1 of 2 stays have over 3 time points: 33.3% of all rows are left out; -m 5" in text for text in warnings
    )
    assert any("not in order of time" in text for text in warnings)
    assert load(path, 10).warnings == [text for text in load(path, 10).warnings if "order of time" in text]


def test_a_file_of_another_form_is_met_with_advice(tmp_path):
    path = tmp_path / "stays.csv"
    for content in (PLAIN.replace(",", ";"), PLAIN.encode("utf-16"), PLAIN.replace("70", "yes")):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(UserError, match=r"prepare_data.py table stays.csv"):
            load(path, 3)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_stays_of_one_patient_are_known_to_be_so(tmp_path, ending):
    source, output = tmp_path / "icu.csv", tmp_path / f"stays.{ending}"
    source.write_text("admissionid,time,hr,pid\n3,0,1,b\n1,0,1,b\n2,0,1,a\n")
    prepare_table(source, layout_of(None, patient="pid"), output)
    loaded = load(output, 4)
    assert loaded.feature_names == ["time", "hr"]
    assert loaded.patients.tolist() == [1, 0, 1]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_release_comes_back_in_the_hospitals_columns_units_and_types(tmp_path, ending):
    rng = np.random.default_rng(0)
    source = pandas.DataFrame(
        {
            "stay": np.repeat(np.arange(1, 21), 5),
            "charted": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(np.tile(np.arange(5), 20) * 30, "min"),
            "sex": np.repeat(rng.choice(["F", "M"], 20), 5),
            "gcs": rng.integers(3, 16, 100),
            "crp": rng.gamma(2, 10, 100).round(1),
        }
    )
    source.to_csv(tmp_path / "icu.csv", index=False)
    prepared = tmp_path / f"stays.{ending}"
    prepare_table(tmp_path / "icu.csv", layout_of(None, id="stay", time="charted"), prepared)
    stays = load(prepared, 5)
    np.savez(tmp_path / "data.npz", generated_data=stays.data + 0.01, padding_mask=stays.padding_mask)
    output = tmp_path / f"release.{ending}"
    write_release_of(tmp_path / "data.npz", prepared, output)

    read = pandas.read_csv(output) if ending == "csv" else pandas.read_parquet(output)
    again = polars.read_csv(output) if ending == "csv" else polars.read_parquet(output)
    assert read.columns.tolist() == again.columns == source.columns.tolist()
    assert read["sex"].tolist() == source["sex"].tolist()
    assert read["gcs"].tolist() == source["gcs"].tolist()
    np.testing.assert_allclose(read["crp"], source["crp"] + 0.01)
    times = pandas.to_datetime(read["charted"])
    assert times.dt.year.eq(2100).all()
    assert (times - times.groupby(read["stay"]).transform("min")).tolist()[:5] == (
        (source["charted"] - source["charted"][0])[:5].tolist()
    )


def test_a_long_release_comes_back_long(tmp_path):
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "d_items.csv").write_text(ITEMS)
    prepared = tmp_path / "stays.csv"
    layout = layout_of("mimic-iv", items=tmp_path / "d_items.csv")
    prepare_table(tmp_path / "events.csv", layout, prepared)
    stays = load(prepared, 4)
    np.savez(tmp_path / "data.npz", generated_data=stays.data, padding_mask=stays.padding_mask)
    write_release_of(tmp_path / "data.npz", prepared, tmp_path / "release.csv")
    read = pandas.read_csv(tmp_path / "release.csv")
    assert read.columns.tolist() == ["stay_id", "charttime", "itemid", "valuenum"]
    assert read[["itemid", "valuenum"]].values.tolist() == [[220045, 82], [220210, 18], [220045, 60], [220045, 61]]


def test_the_command_line_says_what_it_did_and_never_overwrites_its_source(tmp_path, monkeypatch, capsys):
    source = tmp_path / "icu.csv"
    source.write_text("admissionid;time;sex\n1;0;F\n1;1;M\n")
    for arguments, code in ((["-o", tmp_path / "out.csv"], 0), (["-o", source], 2), (["-o", tmp_path / "out.txt"], 2)):
        monkeypatch.setattr(sys, "argv", ["prepare_data.py", "table", str(source), *map(str, arguments)])
        assert prepare_data.main() == code
    out, err = capsys.readouterr()
    assert "note: sex: 0 is 'F', 1 is 'M'" in out
    assert "1 stays, 2 rows, 1 features" in out
    assert err.count("error: ") == 2
    assert "Traceback" not in err
    assert source.read_text().startswith("admissionid;time;sex")


def test_the_worked_examples_in_the_docs_run(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "tables.md").read_text()
    commands = [
        line.split()[2:] for line in text.splitlines() if "examples/tables/" in line and line.startswith(".venv")
    ]
    assert len(commands) == 2
    monkeypatch.chdir(ROOT)
    for command in commands:
        output = tmp_path / command[-1]
        monkeypatch.setattr(sys, "argv", ["prepare_data.py", *command[:-1], str(output)])
        assert prepare_data.main() == 0
        assert "12 stays of 10 patients" in capsys.readouterr().out
        stays = load(output, 100)
        assert len(stays.data) == 12
        assert any(name.lower() == "heart rate" for name in stays.feature_names)
