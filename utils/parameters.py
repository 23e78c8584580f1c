"""A method's typed parameter block, filled from the command line."""

import dataclasses
import typing
from types import ModuleType
from typing import Any

from utils.errors import UserError


def parse_parameters(module: ModuleType, text: str) -> Any:
    """Build a method's `Parameters` from `name=value,...` or from the name of one of its settings.

    Parameters
    ----------
    module : module
        A hider or seeker with a dataclass `Parameters` and, optionally, named settings such as `PUBLISHED`.
    text : str
        `noise_size=0.2,...`, or a setting's name such as `published`, or both: `published,steps=50`.

    Raises
    ------
    UserError
        Where the method has no parameters, or none of that name, or a value is not of the field's type.
    """
    cls = getattr(module, "Parameters", None)
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise UserError(f"{module.__name__} takes no parameters (it has no dataclass Parameters)")
    parameters: Any = cls()
    changes: dict[str, Any] = {}
    types = typing.get_type_hints(cls)
    known = ", ".join(f"{field.name}={getattr(parameters, field.name)}" for field in dataclasses.fields(cls))
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            parameters = getattr(module, name.upper(), None)
            if not isinstance(parameters, cls):
                raise UserError(f"{module.__name__} has no setting '{name}'; write name=value, of {known}")
        elif name not in types:
            raise UserError(f"{module.__name__} has no parameter '{name}'; it has {known}")
        else:
            changes[name] = _convert(name, value, types[name])
    try:
        return dataclasses.replace(parameters, **changes)
    except ValueError as error:
        raise UserError(f"{module.__name__}: {error}") from error


def _convert(name: str, value: str, kind: Any) -> Any:
    options = [option for option in typing.get_args(kind) if option is not type(None)] or [kind]
    if value.lower() == "none" and type(None) in typing.get_args(kind):
        return None
    if typing.get_origin(kind) is typing.Literal:
        if value not in options:
            raise UserError(f"parameter {name} must be one of {', '.join(map(str, options))}, not '{value}'")
        return value
    if options[0] is bool:
        if value.lower() not in ("true", "false"):
            raise UserError(f"parameter {name} must be true or false, not '{value}'")
        return value.lower() == "true"
    try:
        return options[0](value)
    except (TypeError, ValueError) as error:
        raise UserError(f"parameter {name} must be of type {options[0].__name__}, not '{value}'") from error
