"""A method's parameter block, filled from the command line."""

import dataclasses
import types
from dataclasses import dataclass
from typing import Literal

import pytest

from utils.errors import UserError
from utils.parameters import parse_parameters


@dataclass(frozen=True)
class Parameters:
    steps: int = 10
    rate: float = 0.1
    copy: bool = True
    module: Literal["gru", "lstm"] = "gru"
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError("steps must not be negative")


method = types.ModuleType("hider_method")
method.Parameters, method.PUBLISHED = Parameters, Parameters(steps=200)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps=3", {"steps": 3}),
        ("rate=1e-3, copy=false ,module=lstm", {"rate": 1e-3, "copy": False, "module": "lstm"}),
        ("limit=2", {"limit": 2.0}),
        ("limit=none", {"limit": None}),
        ("published", {"steps": 200}),
        ("published,rate=2", {"steps": 200, "rate": 2.0}),
        ("", {}),
    ],
)
def test_fields_take_the_values_given(text, expected):
    assert parse_parameters(method, text) == dataclasses.replace(Parameters(), **expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step=3", "no parameter 'step'; it has steps=10"),
        ("steps=few", "steps must be of type int, not 'few'"),
        ("copy=maybe", "true or false"),
        ("module=rnn", "one of gru, lstm"),
        ("famous", "no setting 'famous'"),
        ("steps=-1", "must not be negative"),
    ],
)
def test_what_does_not_fit_is_named(text, expected):
    with pytest.raises(UserError, match=expected):
        parse_parameters(method, text)
