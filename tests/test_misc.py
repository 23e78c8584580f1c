"""Seeds and redacted exceptions under their 2020 names."""

import json
import time

import pytest

from utils import misc


def test_a_config_is_read_and_a_missing_one_is_empty(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"train_frac": 0.5}))
    assert misc.read_competition_config(tmp_path / "config.json") == {"train_frac": 0.5}
    assert misc.read_competition_config(tmp_path / "none.json") == {}


def test_a_redacted_exception_says_where_and_what_kind_but_not_its_message(tmp_path):
    dump = tmp_path / "exception.txt"
    dump.write_text("of an earlier run")
    with pytest.raises(ValueError, match="patient 7"), misc.dump_redacted_exc(dump):
        raise ValueError("patient 7 has a heart rate of 80")
    text = dump.read_text()
    assert "ValueError: [MESSAGE REDACTED]" in text
    assert "test_misc.py" in text
    assert "patient 7 has" not in text.replace('raise ValueError("patient 7 has a heart rate of 80")', "")
    with misc.dump_redacted_exc(dump):
        pass
    assert not dump.exists()


def test_what_takes_too_long_is_ended_and_said(tmp_path, capsys):
    dump = tmp_path / "exception.txt"
    began = time.monotonic()
    misc.time_limited(time.sleep, 0.2, dump, 30)
    assert time.monotonic() - began < 20
    assert dump.read_text() == "RuntimeError: " + capsys.readouterr().out.strip()
    dump.unlink()
    misc.time_limited(time.sleep, 20, dump, 0)
    assert not dump.exists()
