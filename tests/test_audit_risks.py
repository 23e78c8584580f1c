"""The three risks: none without a leak, large with copies, and intervals that cover the truth."""

import numpy as np
import pytest

from benchmarks.audit_risks import coverage
from scoring.audit.risks import risk_of


def test_a_risk_is_what_members_have_beyond_others():
    found = risk_of(60, 20, 100, 100)
    assert found["risk"] == pytest.approx(0.5)
    assert found["risk_ci95"][0] < 0.5 < found["risk_ci95"][1]
    assert found["p_value"] < 1e-6
    assert risk_of(20, 20, 100, 100)["risk"] == pytest.approx(0)
    assert risk_of(0, 0, 0, 0)["risk"] is None


def test_no_risk_without_copies_and_intervals_that_hold():
    for truth, covered in coverage(12, 0.0, 1).values():
        assert abs(truth) < 0.03
        assert covered >= 0.75


def test_copies_are_a_risk_of_each_kind():
    for truth, covered in coverage(8, 0.5, 1).values():
        assert truth > 0.2
        assert covered >= 0.75


def test_counts_that_leave_nobody_spared_do_not_break():
    found = risk_of(50, 50, 50, 50)
    assert np.isfinite(found["risk_ci95"]).all()
