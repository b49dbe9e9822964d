"""Variables that begin with values of a checkpoint: initializers that restore.

Called by: programs, before initializers are run.  Threads: as graph.
Source: TF 1.15 python/training/{checkpoint_utils,warm_starting_util}.py, for behaviour; nodes compared with it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.base.shapes import TensorShape
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Operation
from headrace.library.variables import assigning
from headrace.library.variables.partitioned import PartitionedVariable, PartitionInfo
from headrace.library.variables.variable_scope import stored_variables
from headrace.library.variables.variables import Variable
from headrace.ops.io import checkpoints as io
from headrace.training import logging
from headrace.training.saver.checkpoint_readers import checkpoint_file, load_checkpoint
from headrace.training.saver.remapping import known_sizes, load_and_remap_matrix_initializer
from headrace.training.saver.saveables import saveables_of

__all__ = ["VocabInfo", "init_from_checkpoint", "warm_start"]


def init_from_checkpoint(
    ckpt_dir_or_file: Any, assignment_map: Mapping[str, Any] | Sequence[tuple[str, Any]]
) -> None:
    """Have initializers of variables restore them from a checkpoint.

    assignment_map: a name in the checkpoint -> a variable, a list of its parts, or its name; or a scope there, which
    ends with a slash -> a scope here, "/" being all; or pairs of those.  Call it before initializers are collected.
    Raises ValueError (names, shapes), NotFoundError, DataLossError.
    """
    path = checkpoint_file(ckpt_dir_or_file)
    shapes = load_checkpoint(path).get_variable_to_shape_map()
    given = assignment_map
    for there, here in sorted(given.items()) if isinstance(given, Mapping) else given:
        if isinstance(here, str):
            found = _named(here)
            if found is None:
                _init_scope(path, shapes, there, here)
                continue
        else:
            found = list(here) if isinstance(here, (list, tuple, PartitionedVariable)) else here
            if not all(isinstance(each, Variable) for each in _listed(found)):
                raise TypeError(
                    f"assignment_map leads to variables, parts of one, or names of them: {there!r} to {here!r:.80}"
                )
        if there not in shapes:
            raise ValueError(f"Tensor {there} is not found in {path} checkpoint {shapes}")
        _check_shape(found, there, shapes[there])
        _init(found, path, there)


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _named(name: str) -> Any:
    """The variable of that name in the store, or the parts of one; None if there is none."""
    stored = stored_variables()
    if name in stored:
        return stored[name]
    if f"{name}/part_0" not in stored:
        return None
    parts: list[Any] = []
    while (part := stored.get(f"{name}/part_{len(parts)}")) is not None:
        parts.append(part)
    return parts


def _init_scope(path: str, shapes: Mapping[str, Sequence[int]], there: str, here: str) -> None:
    scope = here[: here.rindex("/")] if "/" in here else ""
    if not there.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {scope} should map to scope only {there}. Should be 'scope/': "
            f"'other_scope/'.  There is no variable {here!r}"
        )
    names = {
        name.partition("/part_")[0]
        for name in stored_variables()
        if not scope or name.startswith(f"{scope}/")
    }
    for name in sorted(names):
        inside = name[len(scope) :] if here == "/" else name[len(scope) + (1 if scope else 0) :]
        full = inside if there == "/" else there + inside
        full = full.removesuffix("/")
        if full not in shapes:
            raise ValueError(
                f"Tensor {full} ({name[len(scope) + 1 :]} in {there}) is not found in {path} checkpoint"
            )
        found = _named(name)
        _check_shape(found, full, shapes[full])
        _init(found, path, full)


def _whole_shape(found: Any) -> TensorShape:
    if isinstance(found, list):
        info = getattr(found[0], "_save_slice_info", None)
        return TensorShape(None if info is None else info.full_shape)
    shape: TensorShape = found.shape
    return shape


def _check_shape(found: Any, there: str, sizes: Sequence[int]) -> None:
    if isinstance(found, list) and len(found) == 1 and found[0]._save_slice_info is None:
        found = found[0]
    shape = _whole_shape(found)
    if not shape.is_compatible_with(TensorShape(list(sizes))):
        name = found[0].name if isinstance(found, list) else found.name
        raise ValueError(
            f"Shape of variable {name} ({shape}) doesn't match with shape of tensor {there} ({list(sizes)}) from "
            "checkpoint reader."
        )


def _init(found: Any, path: str, there: str) -> None:
    """Have what initializes a variable, or each part of one, be a restore."""
    parts = _listed(found)
    for part in parts:
        info = part._save_slice_info if len(parts) > 1 or isinstance(found, list) else None
        _init_part(part, path, there, "" if info is None else info.spec)
    logging.debug("Initialize variable %s from checkpoint %s with %s", parts[0].name, path, there)


def _init_part(variable: Variable, path: str, there: str, spec: str) -> None:
    graph = variable.graph
    dtype = variable.dtype.base_dtype
    with graph.device(variable.device), graph.device("/cpu:0"):
        restored = io.restore_v2(
            path, [there], [spec], dtypes=[dtype], name="checkpoint_initializer"
        )[0]
    is_part = variable._save_slice_info is not None
    (saveable,) = saveables_of({variable.op.name: [variable] if is_part else variable})
    done = saveable.restore([restored], None)
    restored.set_shape(variable.shape)
    variable._initializer_op = done if isinstance(done, Operation) else done.op
    variable._initial_value = restored


# -- warm starts ----------------------------------------------------------------------------------


class _VocabInfo(NamedTuple):
    new_vocab: str
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str
    old_vocab_size: int = -1
    backup_initializer: Any = None
    axis: int = 0


class VocabInfo(_VocabInfo):
    """Which rows (axis 0) or columns (axis 1) of a variable stand for which words, now and in a checkpoint.

    new_vocab, old_vocab: files with a word a line; new_vocab_size: of which as many are used; num_oov_buckets: more of
    the variable's rows or columns, for other words; old_vocab_size: as many lines of old_vocab count, -1 for all;
    backup_initializer: of what is new, zeros unless given.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> VocabInfo:
        """Raises ValueError, TypeError."""
        found = super().__new__(cls, *args, **kwargs)
        if found.axis not in (0, 1):
            raise ValueError(
                f"The only supported values for the axis argument are 0 and 1.  Provided axis: {found.axis}"
            )
        return found


def warm_start(
    ckpt_to_initialize_from: Any,
    vars_to_warm_start: Any = ".*",
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
    var_name_to_prev_var_name: Mapping[str, str] | None = None,
) -> None:
    """Have initializers of variables restore them from a checkpoint.

    vars_to_warm_start: a regular expression, of trainable variables; a list of them, of all global ones; or a list of
    variables; None for the trainable ones in var_name_to_vocab_info alone.  var_name_to_vocab_info: of matrices whose
    rows or columns stand for words.
    var_name_to_prev_var_name: names in the checkpoint, where they are others.
    Raises ValueError (names, shapes), TypeError, NotFoundError, DataLossError.
    """
    previous = dict(var_name_to_prev_var_name or {})
    vocabularies = dict(var_name_to_vocab_info or {})
    groups = _grouped(_wanted(vars_to_warm_start))
    path = checkpoint_file(ckpt_to_initialize_from)
    logging.info("Warm-starting from: %s", ckpt_to_initialize_from)
    shapes = load_checkpoint(path).get_variable_to_shape_map()
    for name, parts in groups.items():
        there = previous.get(name, name)
        if name in vocabularies:
            _init_by_words(parts, path, there, vocabularies[name])
            continue
        if not vars_to_warm_start:
            continue
        if there not in shapes:
            raise ValueError(
                f"Tensor {there} is not found in {path} checkpoint, and is to warm-start variable {name}"
            )
        is_cut = parts[0]._save_slice_info is not None
        _check_shape(parts if is_cut else parts[0], there, shapes[there])
        _init(parts if is_cut else parts[0], path, there)
    logging.info("Warm-started %d variables.", len(groups))
    _check_used("var_name_to_prev_var_name", previous, groups)
    _check_used("var_name_to_vocab_info", vocabularies, groups)


def _check_used(
    what: str, given: Mapping[str, Any], groups: Mapping[str, Sequence[Variable]]
) -> None:
    unused = given.keys() - groups.keys()
    if unused:
        raise ValueError(
            f"You provided the following variables in {what} that were not used: {sorted(unused)}.  Perhaps you "
            f"misspelled them?  Here is the list of viable variable names: {sorted(groups)}"
        )


def _init_by_words(parts: Sequence[Variable], path: str, there: str, info: VocabInfo) -> None:
    """Have what initializes a matrix, or each part of one, find rows or columns by words.  Raises ValueError."""
    if not (info.new_vocab and info.new_vocab_size and info.old_vocab):
        raise ValueError(
            "Invalid args: Must provide all of [current_vocab_path, current_vocab_size, prev_ckpt, prev_vocab_path}: "
            f"{parts[0].op.name} has {info}"
        )
    all_rows = sum(known_sizes(part.shape)[0] for part in parts)
    for part in parts:
        sizes = known_sizes(part.shape)
        if info.axis == 0:
            made = load_and_remap_matrix_initializer(
                path,
                there,
                info.new_vocab_size,
                sizes[1],
                info.old_vocab_size,
                info.old_vocab,
                info.new_vocab,
                num_row_oov_buckets=info.num_oov_buckets,
                initializer=info.backup_initializer,
            )
        else:
            made = load_and_remap_matrix_initializer(
                path,
                there,
                all_rows,
                info.new_vocab_size,
                old_col_vocab_file=info.old_vocab,
                new_col_vocab_file=info.new_vocab,
                num_col_oov_buckets=info.num_oov_buckets,
                initializer=info.backup_initializer,
            )
        cut = part._save_slice_info
        of_whole = None if cut is None else PartitionInfo(cut.full_shape, cut.var_offset)
        value = made(sizes, partition_info=of_whole)
        done = assigning.assign(part, value)
        part._initializer_op = done if isinstance(done, Operation) else done.op
        part._initial_value = value


def _wanted(given: Any) -> list[Any]:
    graph = scopes.get_default_graph()
    if given is None or isinstance(given, str):
        return graph.get_collection(GraphKeys.TRAINABLE_VARIABLES, scope=given)
    if not isinstance(given, (list, tuple)):
        raise ValueError(
            f"`vars_to_warm_start must be a `list` or `str`.  Given type is {type(given)}"
        )
    if all(isinstance(each, str) for each in given):
        found: list[Any] = []
        for pattern in given:
            found += graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=pattern)
        return list(dict.fromkeys(found))
    if not all(isinstance(each, (Variable, PartitionedVariable)) for each in given):
        kinds = ", ".join(sorted({type(each).__name__ for each in given}))
        raise ValueError(
            "If `vars_to_warm_start` is a list, it must be all `Variable` or all `str`.  Given types are "
            f"{kinds}"
        )
    return list(given)


def _grouped(variables: Sequence[Any]) -> dict[str, list[Variable]]:
    """Variables by name; the parts of one together."""
    found: dict[str, list[Variable]] = {}
    for each in variables:
        for part in _parts(each):
            info = part._save_slice_info
            name = part.op.name if info is None else info.full_name or part.op.name
            found.setdefault(name, []).append(part)
    return found


def _parts(variable: Any) -> Iterator[Variable]:
    yield from variable if isinstance(variable, PartitionedVariable) else [variable]
