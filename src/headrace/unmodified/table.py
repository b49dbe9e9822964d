"""The table of TensorFlow's modules: which attribute of which module is what of headrace.

Three files beside this one, read when the first question is asked:

    rows.txt      written by hand: private names that programs use, modules that only some versions had
    modules.txt   written by scripts/tensorflow_modules.py: which public name each attribute of each module is
    raw_ops.txt   written by the same: the functions of the gen_* modules

A row is a module, without ``tensorflow.``, and words, further ones on indented lines:

    nn.relu               attribute `relu`: the public tf.nn.relu
    top_k=nn.top_k        attribute `top_k`: the public tf.nn.top_k
    nest=:python.util.nest          attribute `nest`: that module
    as_shape=@base.shapes:as_shape  attribute `as_shape`: what headrace.base.shapes calls `as_shape`
    *python.ops.gen_nn_ops          every attribute of that module
    %codec.protos                   every attribute of headrace.codec.protos

Public names are looked up when they are asked for: what headrace has tomorrow is found tomorrow, without another row.
Called by: facade, finder.  Threads: any.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from headrace.base.text import snake

_HERE = os.path.dirname(os.path.realpath(__file__))
_ALIASES = ("compat.v1.", "_api.v1.")


@dataclass(slots=True)
class Row:
    """What is known of one module."""

    names: dict[str, str] = field(default_factory=dict)
    """attribute -> ``nn.relu``, ``:module`` or ``@module:attribute``"""
    modules: list[str] = field(default_factory=list)
    """modules all of whose attributes it has"""
    sources: list[str] = field(default_factory=list)
    """modules of headrace all of whose public attributes it has"""
    ops: dict[str, str] = field(default_factory=dict)
    """function -> ``Sum(input,axis=reduction_indices,keep_dims)``"""
    children: set[str] = field(default_factory=set)


@cache
def rows() -> dict[str, Row]:
    """All rows, by module; packages between the root and a module have one too."""
    found: dict[str, Row] = {}
    for file in ("modules.txt", "rows.txt"):  # what is written by hand wins
        for module, words in _read(file):
            row = found.setdefault(module, Row())
            for word in words:
                _add(row, word, module)
    for module, words in _read("raw_ops.txt"):
        functions = found.setdefault(module, Row()).ops
        for word in words:
            alias, _, form = word.rpartition(":")
            op = form.partition("(")[0]
            functions[alias or snake(op)] = functions[op] = form
    for module in [*found]:
        while module:
            module, _, child = module.rpartition(".")
            found.setdefault(module, Row()).children.add(child)
    return found


@cache
def raw_forms() -> dict[str, str]:
    """``Sum(input,axis=reduction_indices,keep_dims)`` by the name of the op."""
    words = [word.rpartition(":")[2] for _, words in _read("raw_ops.txt") for word in words]
    return {form.partition("(")[0]: form for form in words}


def _add(row: Row, word: str, module: str) -> None:
    if word[0] == "*":
        row.modules.append(word[1:])
    elif word[0] == "%":
        row.sources.append(word[1:])
    else:
        name, _, target = word.partition("=")
        if module.startswith("core.") and not target:
            target = f"@codec.protos:{name}"
        attribute = name.rpartition(".")[2]
        row.names[attribute] = target or name
        if attribute.endswith("_v1"):  # 1.15 gave the plain name to what became 2.0's
            row.names.setdefault(attribute.removesuffix("_v1"), target or name)


def _read(file: str) -> Iterator[tuple[str, list[str]]]:
    """(module, words); a module that occurs again goes on."""
    module = ""
    with open(os.path.join(_HERE, file), encoding="ascii") as lines:
        for line in lines:
            words = line.split("#")[0].split()
            if words:
                if line[0] != " ":
                    module = words.pop(0)
                yield module, words


def plain(path: str) -> str:
    """A path beneath ``tensorflow`` as the table has it: without the ways around by compat.v1."""
    while path.startswith(_ALIASES) or path in ("compat.v1", "_api.v1"):
        path = path.partition(".")[2].partition(".")[2]
    return path
