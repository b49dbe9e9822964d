"""What a saver saves: each object with the tensors that stand for it, their names, and how it takes a value back.

Called by: training.saver.builder, programs with saveables of their own.  Threads: as graph.
Source: TF 1.15 python/training/saving/saveable_object{,_util}.py, for behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.device import DeviceSpec
from headrace.base.traits import VARIABLE
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.registry import get as op_spec
from headrace.graph.tensor import Tensor
from headrace.library.variables import assigning
from headrace.library.variables.partitioned import PartitionedVariable
from headrace.library.variables.resource_variables import ResourceVariable
from headrace.library.variables.variables import Variable
from headrace.ops.array.shapes import reshape
from headrace.ops.flow import identities as flow
from headrace.ops.state import resources as raw
from headrace.ops.state.references import is_resource_variable

__all__: list[str] = []

CPU = "/device:CPU:0"


class SaveSpec:
    """One tensor of a saveable object: under which name, and which part of a larger one it is."""

    def __init__(
        self,
        tensor: Tensor | Callable[[], Tensor],
        slice_spec: str,
        name: str,
        dtype: Any = None,
        device: str | None = None,
    ) -> None:
        """tensor: itself, or what makes it; then dtype and device must be given.  slice_spec: as checkpoints write it.

        Raises ValueError.
        """
        self._tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        if callable(tensor):
            if dtype is None or device is None:
                raise ValueError(
                    "When passing a callable `tensor` to a SaveSpec, an explicit dtype and device must be provided."
                )
            self.dtype, self.device = dtypes.as_dtype(dtype), device
        else:
            self.dtype = tensor.dtype
            self.device = tensor.device if device is None else device

    @property
    def tensor(self) -> Tensor:
        """What is saved; made anew each time, if it is made."""
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """What can be saved: a subclass says how it takes its values back, in `restore`."""

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str) -> None:
        """op: what it is, for who asks; specs: its tensors; name: under which savers list it."""
        self.op = op
        self.specs = list(specs)
        self.name = name

    @property
    def device(self) -> str:
        """Of its first tensor."""
        return self.specs[0].device

    @property
    def optional_restore(self) -> bool:
        """Whether a checkpoint may lack it."""
        return False

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """The operation that gives it the values in `restored_tensors`, reshaped if shapes are given."""
        raise ValueError(
            f"Calling an abstract method: {type(self).__name__} must say how {self.name!r} is restored"
        )


class ReferenceVariableSaveable(SaveableObject):
    """A reference variable, whole or a part of a partitioned one."""

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        tensor = var if isinstance(var, Tensor) else convert(var)
        super().__init__(var, [SaveSpec(tensor, slice_spec, name, var.dtype)], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """See `SaveableObject`."""
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = reshape(value, restored_shapes[0])
        whole = restored_shapes is None and self.op.shape.is_fully_defined()
        return assigning.assign(self.op, value, validate_shape=whole)


class ResourceVariableSaveable(SaveableObject):
    """A resource variable, or the tensor that reads one."""

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        """Raises ValueError for what is neither."""
        self._shape = var.shape
        tensor: Tensor | Callable[[], Tensor]
        if isinstance(var, Tensor):
            handle, tensor, device = var.op.inputs[0], var, var.device
        elif isinstance(var, ResourceVariable):
            handle, tensor, device = var.handle, _reading(var), var.device
        else:
            raise ValueError(
                f"Saveable is neither a resource variable nor a read operation. Got: {var!r}"
            )
        self._handle = handle
        spec = SaveSpec(tensor, slice_spec, name, var.dtype, device)
        super().__init__(var, [spec], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """See `SaveableObject`."""
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = reshape(value, restored_shapes[0])
        with scopes.get_default_graph().device(self._handle.device):
            value = flow.identity(value)
            self._shape.assert_is_compatible_with(value.shape)
            return raw.assign_variable_op(self._handle, value)


def _reading(var: ResourceVariable) -> Callable[[], Tensor]:
    def read() -> Tensor:
        graph = scopes.get_default_graph()
        with graph.device(var.device):
            value = var.read_value()
            with graph.device(CPU):
                return flow.identity(value)  # type: ignore[no-any-return]

    return read


# -- which there are ------------------------------------------------------------------------------


def named(op_list: Any) -> dict[str, Any]:
    """What is saved by its name: of variables, partitioned ones among them, and saveables.

    Parts of one variable share its name, in a list.  Raises TypeError, ValueError (a name comes twice).
    """
    if not isinstance(op_list, (list, tuple, set)):
        raise TypeError(f"Variables to save should be passed in a dict or a list. Got {op_list}")
    found: dict[str, Any] = {}
    for each in sorted(op_list, key=_name_of):
        if isinstance(each, SaveableObject):
            found[each.name] = each
        elif isinstance(each, PartitionedVariable):
            found[_unused(each.name, found)] = each
        elif isinstance(each, Variable) and each._save_slice_info is not None:
            _add_part(each, found)
        else:
            name, value = _whole(each)
            found[_unused(name, found)] = value
    return found


def _name_of(each: Any) -> str:
    name = getattr(each, "name", None)
    if not isinstance(name, str):
        raise TypeError(
            f"Variable to save is not a Variable: {each!r}, of type {type(each).__name__}"
        )
    return name


def _unused(name: str, found: Mapping[str, Any]) -> str:
    if name in found:
        raise ValueError(
            f"At least two variables have the same name: {name}; give a dict of names to save both"
        )
    return name


def _add_part(part: Variable, found: dict[str, Any]) -> None:
    info = part._save_slice_info
    assert info is not None
    name = info.full_name or ""
    there = found.setdefault(name, [])
    if not isinstance(there, list):
        raise ValueError(f"Mixing slices and non-slices with the same name: {name}")
    there.append(part)


def _whole(each: Any) -> tuple[str, Any]:
    """(name, what is saved) of a variable, or of the tensor that stands for one."""
    tensor = each if isinstance(each, Tensor) else _element(each)
    if not _is_variable(tensor):
        raise TypeError(
            f"Variable to save is not a Variable: {tensor}; a value is saved by the variable that it is assigned to"
        )
    return _state_name(tensor), tensor


def _element(each: Any) -> Any:
    if isinstance(each, ResourceVariable):
        return each._as_graph_element()
    return each._ref() if isinstance(each, Variable) else convert(each)


def _is_variable(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and (
        _reads_a_resource(tensor) or VARIABLE in tensor.op.traits
    )


def _reads_a_resource(tensor: Tensor) -> bool:
    return tensor.op.spec is raw.read_variable_op


def _state_name(tensor: Tensor) -> str:
    return tensor.op.inputs[0].op.name if _reads_a_resource(tensor) else tensor.op.name


def saveables_of(names_to_saveables: Any) -> list[SaveableObject]:
    """The saveable objects, in the order of their names, of a dict by name or of what `named` takes.

    Raises TypeError, ValueError.
    """
    if not isinstance(names_to_saveables, Mapping):
        names_to_saveables = named(names_to_saveables)
    for name in names_to_saveables:
        if not isinstance(name, str):
            raise TypeError(
                "names_to_saveables must be a dict mapping string names to trackable operations. Name is not a "
                f"string: {name!r}"
            )
    found: list[SaveableObject] = []
    seen: set[int] = set()
    for name in sorted(names_to_saveables):
        for each in _of(name, names_to_saveables[name]):
            if id(each.op) in seen:
                raise ValueError(f"The same saveable will be restored with two names: {each.name}")
            seen.add(id(each.op))
            found.append(each)
    return found


def _of(name: str, given: Any) -> Iterable[SaveableObject]:
    if isinstance(given, SaveableObject):
        return [given]
    if isinstance(given, (list, tuple, PartitionedVariable)):
        return list(_parts(name, given))
    if isinstance(given, Variable) and not isinstance(given, ResourceVariable):
        given = given._ref()
    if isinstance(given, ResourceVariable):
        return [ResourceVariableSaveable(given._as_graph_element(), "", name)]
    if not _is_variable(given):
        raise TypeError(
            "names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a variable: "
            f"{given}; {name!r} names it"
        )
    if _reads_a_resource(given):
        return [ResourceVariableSaveable(given, "", name)]
    return [ReferenceVariableSaveable(given, "", name)]


def _parts(name: str, parts: Iterable[Any]) -> Iterable[SaveableObject]:
    full_name = None
    for part in parts:
        if not isinstance(part, Variable):
            raise ValueError(f"Slices must all be Variables: {part}; {name!r} names it")
        info = part._save_slice_info
        if not info:
            raise ValueError(f"Slices must all be slices: {part!r}; {name!r} names it")
        if full_name is None:
            full_name = info.full_name
        elif full_name != info.full_name:
            raise ValueError(
                f"Slices must all be from the same tensor: {full_name} != {info.full_name}"
            )
        kind = ResourceVariableSaveable if is_resource_variable(part) else ReferenceVariableSaveable
        yield kind(part, info.spec, name)


def on_cpu(device: str) -> str:
    """`device`, its first CPU."""
    spec = DeviceSpec.from_string(device)
    return spec.replace(device_type="CPU", device_index=0).to_string()


def restored_shape(spec: SaveSpec) -> Any:
    """What a value is reshaped to that is restored as `spec`: its static shape, or the tensor of its shape."""
    tensor = spec.tensor
    if tensor.shape.is_fully_defined():
        return tensor.shape
    return op_spec("Shape")(tensor)
