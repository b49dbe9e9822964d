"""Parts of variables: which part of a larger one a variable is, for savers.

Called by: variables, partitioned variables, optimizers' slots.  Threads: any.
"""

from __future__ import annotations

from typing import Any

from headrace.codec import protos as pb
from headrace.graph.export_scopes import prefixed, without_prefix

__all__: list[str] = []


class SaveSliceInfo:
    """Which part of a larger, partitioned variable this one is, for savers.

    full_shape, var_offset, var_shape: one integer a dimension.
    """

    def __init__(
        self,
        full_name: str | None = None,
        full_shape: Any = None,
        var_offset: Any = None,
        var_shape: Any = None,
        save_slice_info_def: pb.SaveSliceInfoDef | None = None,
        import_scope: str | None = None,
    ) -> None:
        given = save_slice_info_def
        if given is not None:
            full_name = prefixed(given.full_name, import_scope)
            full_shape, var_offset = list(given.full_shape), list(given.var_offset)
            var_shape = list(given.var_shape)
        self.full_name = full_name
        self.full_shape = full_shape
        self.var_offset = var_offset
        self.var_shape = var_shape

    @property
    def spec(self) -> str:
        """The slice as checkpoints write it: sizes of the whole, then ``offset,size`` an axis: ``5 2 0,3:0,2``."""
        sizes = " ".join(str(size) for size in self.full_shape)
        parts = ":".join(f"{o},{s}" for o, s in zip(self.var_offset, self.var_shape, strict=True))
        return f"{sizes} {parts}"

    def to_proto(self, export_scope: str | None = None) -> pb.SaveSliceInfoDef | None:
        """The SaveSliceInfoDef; None if the variable is outside `export_scope`."""
        name = self.full_name or ""
        if export_scope and not name.startswith(export_scope):
            return None
        return pb.SaveSliceInfoDef(
            full_name=without_prefix(name, export_scope),
            full_shape=self.full_shape,
            var_offset=self.var_offset,
            var_shape=self.var_shape,
        )
