"""tf.contrib.training.HParams: values of fixed types, from text and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

import headrace as tf

HParams = tf.contrib.training.HParams


def made() -> Any:
    return HParams(rate=0.1, layers=2, name="a", on=True, sizes=[1, 2, 3], nothing=None)


def test_values_are_attributes_and_are_parsed_as_their_types() -> None:
    params = made()
    assert (params.rate, params.layers, params.sizes, "rate" in params, "other" in params) == (
        0.1, 2, [1, 2, 3], True, False,
    )  # fmt: skip
    assert params.parse("rate=3,name=b c, on=false,sizes=[4, 5 6],layers=-1") is params
    assert params.values() == {
        "rate": 3.0, "layers": -1, "name": "b c", "on": False, "sizes": [4, 5, 6], "nothing": None,
    }  # fmt: skip
    assert isinstance(params.rate, float)
    params.parse("sizes[1]=9,sizes[0]=7")
    assert params.sizes == [7, 9, 6]
    params.parse("")
    assert params.override_from_dict({"layers": 5}).layers == 5
    params.add_hparam("more", (1.5, 2.5))
    params.set_hparam("more", [1, 2])
    assert params.more == [1.0, 2.0]
    params.del_hparam("more")
    params.del_hparam("never")
    assert not hasattr(params, "more")
    assert repr(HParams(b=1, a=[2])) == "HParams([('a', [2]), ('b', 1)])"
    assert str(HParams(b=1, a=[2])) == "b=1,a=[2]"
    params.set_model_structure("s")
    assert params.get_model_structure() == "s"


def test_json_goes_both_ways() -> None:
    params = made()
    other = HParams(**{**made().values(), "sizes": [0]}).parse_json(params.to_json())
    assert other.values() == params.values()
    assert json.loads(HParams(f=len, a=1).to_json()) == {"a": 1}
    assert HParams(b=1, a=2).to_json(sort_keys=True, separators=(",", ":")) == '{"a":2,"b":1}'


def test_get_looks_at_the_type_of_its_default() -> None:
    params = made()
    assert (params.get("rate"), params.get("layers", 7), params.get("x", 7)) == (0.1, 2, 7)
    assert params.get("x") is None
    for key, default in (("layers", 1.5), ("sizes", 1), ("layers", [1]), ("name", 3), ("on", 1)):
        with pytest.raises(ValueError, match="incompatible with default"):
            params.get(key, default)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rate", "Malformed hyperparameter value: rate"),
        ("other=1", "Unknown hyperparameter type for other"),
        ("layers=1.5", "Could not parse hparam 'layers' of type 'int' with value '1.5'"),
        ("on=maybe", "Could not parse hparam 'on'"),
        ("rate=1,rate=2", "Multiple assignments to variable 'rate'"),
        ("sizes[1]=1,sizes[1]=2", r"Multiple assignments to variable 'sizes\[1\]'"),
        ("sizes[1]=[1]", "Assignment of a list to a list index"),
        ("sizes=1", "Must pass a list for multi-valued parameter"),
        ("layers=[1]", "Must not pass a list for single-valued parameter"),
        ("sizes[7]=1", "has 3 elements"),
    ],
)
def test_text_that_does_not_fit_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made().parse(text)


def test_values_that_do_not_fit_are_refused() -> None:
    for name, value in (("layers", 1.5), ("layers", True), ("on", 1), ("name", 3), ("rate", "x")):
        with pytest.raises(ValueError, match="Could not cast hparam"):
            made().set_hparam(name, value)
    with pytest.raises(ValueError, match="reserved: values"):
        HParams(values=1)
    with pytest.raises(ValueError, match="cannot be empty"):
        HParams(a=[])
    with pytest.raises(tf.errors.UnimplementedError, match="parse_json"):
        HParams(object())


def test_text_is_parsed_without_an_object_too() -> None:
    parse = tf.contrib.training.parse_values
    assert parse("a=1,b[2]=x,c=[]", {"a": int, "b": str, "c": int}) == {
        "a": 1,
        "b": {2: "x"},
        "c": [],
    }
    assert parse("a=1,z=2", {"a": bool}, ignore_unknown=True) == {"a": True}
