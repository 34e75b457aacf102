"""Turns the JSON of a body into the type that a handler declares."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Callable, Dict, Mapping, Sequence, Tuple, TypeVar, Union

B = TypeVar("B")
NUMBERS: Dict[Any, Tuple[type, ...]] = {float: (int, float), int: (int,), str: (str,), bool: (bool,)}
NAMES = {dict: "an object", list: "an array", str: "text", bool: "true or false", int: "an integer", float: "a number"}


class BodyError(ValueError):
    """A body that does not fit; the text names the field, what it is and what it must be."""


def decoder(type_: Any) -> Callable[[Any], Any]:
    """Returns the function that makes a body of a type.

    A dataclass is filled field by field. Pydantic's models and other types with ``model_validate`` check themselves.
    Builtin types, and those of typing, are checked. Any other callable is called with the JSON.
    """
    validate = getattr(type_, "model_validate", None)
    if callable(validate):
        return typing.cast(Callable[[Any], Any], validate)
    checks = dataclasses.is_dataclass(type_) or type_ in NAMES or typing.get_origin(type_) is not None or type_ is Any
    if checks or type_ is None:
        return lambda value: fitted(value, type_, "body")
    if not callable(type_):
        raise TypeError(f"body must be a type or a function; got {type_!r}")
    return typing.cast(Callable[[Any], Any], type_)


def fitted(value: Any, type_: Any, at: str) -> Any:
    """Returns the value as a type. ``at`` is the path of the value, such as ``body.order``. Raises BodyError."""
    if type_ is Any or isinstance(type_, TypeVar):
        return value
    if dataclasses.is_dataclass(type_) and isinstance(type_, type):
        return filled(value, type_, at)
    if type_ is None or type_ is type(None):
        return value if value is None else misfit(value, "null", at)
    if type_ in NUMBERS:
        fits = isinstance(value, NUMBERS[type_]) and isinstance(value, bool) == (type_ is bool)
        return type_(value) if fits else misfit(value, NAMES[type_], at)
    origin, parts = typing.get_origin(type_), typing.get_args(type_)
    if origin is Union or type(type_).__name__ == "UnionType":
        return fitted_union(value, parts, at)
    if origin is typing.Literal:
        return value if value in parts else misfit(value, " or ".join(map(repr, parts)), at)
    if (origin or type_) in (dict, Mapping, typing.get_origin(Mapping)):
        inner = parts[1] if parts else Any
        if not isinstance(value, dict):
            misfit(value, "an object", at)
        return {name: fitted(part, inner, f"{at}.{name}") for name, part in value.items()}
    if (origin or type_) in (list, Sequence, typing.get_origin(Sequence)):
        inner = parts[0] if parts else Any
        if not isinstance(value, list):
            misfit(value, "an array", at)
        return [fitted(part, inner, f"{at}[{index}]") for index, part in enumerate(value)]
    return type_(value) if callable(type_) and origin is None else value


def filled(value: Any, type_: Any, at: str) -> Any:
    """Returns a dataclass made of an object. Other fields of the object are ignored."""
    if not isinstance(value, dict):
        misfit(value, "an object", at)
    hints = typing.get_type_hints(type_)
    arguments = {}
    for field in dataclasses.fields(type_):
        if not field.init:
            continue
        if field.name in value:
            arguments[field.name] = fitted(value[field.name], hints[field.name], f"{at}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise BodyError(f"{at}.{field.name} is missing")
    return type_(**arguments)


def fitted_union(value: Any, parts: Tuple[Any, ...], at: str) -> Any:
    """Returns the value as the first type that it fits."""
    errors = []
    for part in parts:
        try:
            return fitted(value, part, at)
        except BodyError as error:
            errors.append(str(error))
    raise BodyError("; or ".join(errors))


def misfit(value: Any, expected: str, at: str) -> Any:
    """Raises the error of a value that is not what it must be."""
    name = "null" if value is None else NAMES.get(type(value), type(value).__name__)
    shown = "" if isinstance(value, (dict, list)) or value is None else f" {str(value)[:60]!r}"
    raise BodyError(f"{at} must be {expected}; got {name}{shown}")
