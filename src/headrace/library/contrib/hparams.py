"""tf.contrib.training.HParams: names with values of fixed types, parsed from text and JSON.

Called by: programs.  Threads: as plain objects.
Source: behaviour of TF 1.15 (contrib/training/python/training/hparam.py)
"""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Mapping
from typing import Any

from headrace.base import errors
from headrace.base.arguments import check_mapping, check_word

__all__ = ["HParams", "parse_values"]

_ASSIGNMENT = re.compile(
    r"(?P<name>[a-zA-Z][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*=\s*((?P<val>[^,\[]*)|\[(?P<vals>[^\]]*)\])($|,\s*)"
)
_TEXT = (str, bytes)


def _cast(name: str, kind: Any, value: Any) -> Any:
    """`value` as a `kind`, where that loses nothing.  Raises ValueError."""
    if issubclass(kind, type(None)):
        return value
    is_text, is_bool = issubclass(kind, _TEXT), issubclass(kind, bool)
    fits = (
        (not is_text or isinstance(value, _TEXT))
        and is_bool == isinstance(value, bool)
        and (not issubclass(kind, numbers.Integral) or isinstance(value, numbers.Integral))
        and (not issubclass(kind, numbers.Number) or isinstance(value, numbers.Number))
    )
    if not fits:
        raise ValueError(f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}")
    return value.decode() if isinstance(value, bytes) and kind is str else kind(value)


def _parsed(name: str, kind: Any, text: str, values: str) -> Any:
    if kind is bool:
        if text in ("true", "True", "false", "False"):
            return text in ("true", "True")
        kind = _as_bool
    try:
        return kind(text)
    except ValueError:
        raise ValueError(
            f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}' in {values}"
        ) from None


def _as_bool(text: str) -> bool:
    return bool(int(text))


def parse_values(
    values: str, type_map: Mapping[str, Any], ignore_unknown: bool = False
) -> dict[str, Any]:
    """Assignments ``name=1,other=[1,2],third[1]=2`` as values by name; what has an index, as a dict by index.

    type_map: the type of each value, or of each element.  ignore_unknown: leave out names that it lacks.
    Raises ValueError.
    """
    check_word("parse_values", "values", values, ("a=1,b=2",))
    check_mapping("parse_values", "type_map", type_map, "types by names")
    found: dict[str, Any] = {}
    at = 0
    while at < len(values):
        match = _ASSIGNMENT.match(values, at)
        if match is None:
            raise ValueError(f"Malformed hyperparameter value: {values[at:]}")
        at = match.end()
        name, index = match["name"], match["index"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"Unknown hyperparameter type for {name}")
        kind = type_map[name]
        if match["vals"] is not None:
            if index is not None:
                raise ValueError(
                    f"Assignment of a list to a list index: {name}[{index}] in {values}"
                )
            _once(found, name, name, values)
            parts = filter(None, re.split("[ ,]", match["vals"]))
            found[name] = [_parsed(name, kind, each, values) for each in parts]
            continue
        value = _parsed(name, kind, match["val"], values)
        if index is None:
            _once(found, name, name, values)
            found[name] = value
        else:
            elements = found.setdefault(name, {})
            if not isinstance(elements, dict):
                _once(found, name, name, values)
            _once(elements, int(index), f"{name}[{int(index)}]", values)
            elements[int(index)] = value
    return found


def _once(found: Mapping[Any, Any], key: Any, name: str, values: str) -> None:
    if key in found:
        raise ValueError(f"Multiple assignments to variable '{name}' in {values}")


class HParams:
    """Hyperparameters as attributes; each keeps the type of its first value, and a list stays a list."""

    _hparam_types: dict[str, tuple[type, bool]]

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        """kwargs: names and values.  model_structure: anything, kept for the program.

        Raises ValueError, Unimplemented for a message hparam_def.
        """
        if hparam_def is not None:
            raise errors.unimplemented(
                "HParams are not made of an HParamDef message here: pass names and values, or parse_json"
            )
        self._hparam_types = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """A new one.  Raises ValueError if the name is taken, or for an empty list."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Another value of the same type.  A dict sets elements of a list.  Raises KeyError, ValueError."""
        kind, is_list = self._hparam_types[name]
        if isinstance(value, dict) and is_list:
            elements = list(getattr(self, name))
            for at, each in value.items():
                if not 0 <= at < len(elements):
                    raise ValueError(f"{name} has {len(elements)} elements, and none at {at}")
                elements[at] = each
            value = elements
        if isinstance(value, list):
            if not is_list:
                raise ValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_cast(name, kind, each) for each in value])
        else:
            if is_list:
                raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
            setattr(self, name, _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Take it out, if it is there."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Set what ``name=value,name=[value,value]`` says.  Raises ValueError."""
        kinds = {name: kind for name, (kind, _) in self._hparam_types.items()}
        return self.override_from_dict(parse_values(values, kinds))

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Set all of these.  Raises KeyError, ValueError."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Set what an object in JSON says.  Raises KeyError, ValueError."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(
        self,
        indent: Any = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """The values as an object in JSON; functions are left out.  Arguments as of json.dumps."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """Values by name."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` where there is none.  Raises ValueError if that is of another type."""
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            says = (
                f"Hparam '{key}' of type '{f'list<{kind}>' if is_list else kind}' is incompatible with "
                f"default={default}"
            )
            if is_list != isinstance(default, list):
                raise ValueError(says)
            try:
                for each in default if is_list else [default]:
                    _cast(key, kind, each)
            except ValueError as error:
                raise ValueError(f"{says}. {error}") from None
        return getattr(self, key)

    def set_model_structure(self, model_structure: Any) -> None:
        """Keep it."""
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """What was kept."""
        return self._model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values().items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.values().items())})"
