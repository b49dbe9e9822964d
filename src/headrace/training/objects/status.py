"""What `Checkpoint.restore` gives: runs the nodes that restore, and says what was matched.

Called by: programs.  Threads: as graph; what runs a step blocks for it.
Source: TF 1.15 and 2.21 behaviour of the status objects of tf.train.Checkpoint; phrases of errors as of 2.21
"""

from __future__ import annotations

from typing import Any, Final

from headrace.graph.scopes import get_default_session
from headrace.library.tracking.trackable import Trackable
from headrace.library.variables.variables import Variable
from headrace.training.objects.object_graph import ObjectGraph, full_name, shown_names
from headrace.training.objects.restoring import LoadedCheckpoint, next_uid
from headrace.training.saver.saver import Saver

__all__: list[str] = []

_MOST_SHOWN: Final = 10


def session_or_default(session: Any) -> Any:
    """`session`, or the default one.  Raises ValueError if there is none."""
    found = get_default_session() if session is None else session
    if found is None:
        raise ValueError(
            "No default session is registered: give `session`, or call this inside `with tf.Session():`"
        )
    return found


def _objects(root: Trackable) -> list[Trackable]:
    return ObjectGraph(root).objects


def _with_values(objects: list[Trackable]) -> list[Trackable]:
    return [each for each in objects if each._gather_saveables_for_checkpoint()]


def _initializers(objects: list[Trackable]) -> list[Any]:
    found = [getattr(each, "initializer", None) for each in objects]
    return [each for each in found if each is not None]


class CheckpointLoadStatus:
    """Of a checkpoint of objects."""

    def __init__(self, checkpoint: LoadedCheckpoint, root: Trackable) -> None:
        self._checkpoint, self._root = checkpoint, root

    def assert_consumed(self) -> CheckpointLoadStatus:
        """Raise AssertionError unless all values of the checkpoint and all objects of the program are matched."""
        self.assert_existing_objects_matched()
        checkpoint = self._checkpoint
        names = shown_names(checkpoint.objects)
        for number in checkpoint.unresolved():
            raise AssertionError(
                f"Unresolved object in checkpoint {names[number]}: {checkpoint.objects.nodes[number]}"
            )
        if checkpoint.unused:
            lines = [f"{names[at]}: {', '.join(each)}" for at, each in checkpoint.unused.items()]
            raise AssertionError(
                "Unused attributes in these objects (the attributes exist in the checkpoint but were not restored):\n"
                + "\n".join(lines)
            )
        return self

    def assert_existing_objects_matched(self) -> CheckpointLoadStatus:
        """Raise AssertionError unless all objects of the program that have values are matched."""
        matched = self._matched()
        for number, trackable in self._checkpoint.matched.items():
            if trackable._update_uid < self._checkpoint.uid:
                raise AssertionError(
                    f"Object {self._checkpoint.objects.nodes[number]} not assigned a value from checkpoint."
                )
        missing = [each for each in _with_values(_objects(self._root)) if id(each) not in matched]
        if missing:
            shown = missing[:_MOST_SHOWN]
            raise AssertionError(
                f"Found {len(missing)} Python objects that were not bound to checkpointed values, likely due to "
                f"changes in the Python program. Showing {len(shown)} of {len(missing)} unmatched objects: {shown}"
            )
        return self

    def assert_nontrivial_match(self) -> CheckpointLoadStatus:
        """Raise AssertionError if nothing beneath the root is matched."""
        if len(self._checkpoint.matched) > 1:
            return self
        matched = self._matched()
        missing = [each for each in _with_values(_objects(self._root)) if id(each) not in matched]
        if missing:
            raise AssertionError(
                "Nothing except the root object matched a checkpointed value. Typically this means that the checkpoint "
                "does not match the Python program. The following objects have no matching checkpointed value: "
                f"{missing}"
            )
        raise AssertionError(
            f"Nothing to load. No dependencies have been added to {self._root} yet."
        )

    def _matched(self) -> set[int]:
        return {id(each) for each in self._checkpoint.matched.values()}

    def expect_partial(self) -> CheckpointLoadStatus:
        """Have nobody be warned of values that are not used."""
        self._checkpoint.is_partial = True
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Give all objects that are matched by now their values.  Raises ValueError, and what the step does."""
        checkpoint = self._checkpoint
        session_or_default(session).run(
            checkpoint.restore_ops, {checkpoint.prefix: checkpoint.path}
        )

    def initialize_or_restore(self, session: Any = None) -> None:
        """As `run_restore_ops`, then run the initializers of the others."""
        session = session_or_default(session)
        matched = self._matched()
        others = [
            each
            for each in _objects(self._root)
            if id(each) not in matched and each._update_uid < self._checkpoint.uid
        ]
        self.run_restore_ops(session)
        session.run(_initializers(others))


class InitializationOnlyStatus:
    """Of no checkpoint: `restore(None)`."""

    def __init__(self, root: Trackable) -> None:
        self._root, self._uid = root, next_uid()

    def assert_consumed(self) -> InitializationOnlyStatus:
        """Raises AssertionError."""
        raise AssertionError("No checkpoint specified (save_path=None); nothing is being restored.")

    assert_existing_objects_matched = assert_consumed
    assert_nontrivial_match = assert_consumed

    def expect_partial(self) -> InitializationOnlyStatus:
        """Nothing to do."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Raises AssertionError."""
        raise AssertionError(
            "No checkpoint specified, so no restore ops are available (save_path=None to Saver.restore)."
        )

    def initialize_or_restore(self, session: Any = None) -> None:
        """Run the initializers of all objects that no later checkpoint has given values."""
        session = session_or_default(session)
        new = [each for each in _objects(self._root) if each._update_uid < self._uid]
        session.run(_initializers(new))


class NameBasedSaverStatus:
    """Of a checkpoint that a saver wrote: variables take their values by their names."""

    def __init__(self, path: str, names: set[str], root: Trackable) -> None:
        """names: those that the checkpoint has."""
        self._path, self._names, self._root = path, names, root
        self._uid = next_uid()
        self._optional: list[Variable] = []
        self._saver: tuple[list[Variable], Saver] | None = None

    def add_to_optionally_restored(self, var: Variable) -> None:
        """Have `var` stay as it is if the checkpoint lacks it."""
        self._optional.append(var)

    def assert_consumed(self) -> NameBasedSaverStatus:
        """Raise AssertionError unless all objects were restored; until the restore was run they were not."""
        optional = {id(each) for each in self._optional}
        for each in _objects(self._root):
            if id(each) not in optional and each._update_uid < self._uid:
                raise AssertionError(f"Object not restored: {each!r}")
        return self

    assert_existing_objects_matched = assert_consumed
    assert_nontrivial_match = assert_consumed

    def expect_partial(self) -> NameBasedSaverStatus:
        """Nothing to do: nobody is warned."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Give the variables the values of their names.

        Raises ValueError, NotFoundError (names that the checkpoint lacks), and what the step does.
        """
        session = session_or_default(session)
        objects = [each for each in _objects(self._root) if each._update_uid <= self._uid]
        skipped = {id(each) for each in self._skipped()}
        variables = [
            each for each in objects if isinstance(each, Variable) and id(each) not in skipped
        ]
        if self._saver is None or self._saver[0] != variables:
            self._saver = variables, Saver(variables)
        self._saver[1].restore(session, self._path)
        for each in objects:
            each._update_uid = self._uid

    def initialize_or_restore(self, session: Any = None) -> None:
        """As `run_restore_ops`; what may be missing is initialized if it is."""
        session = session_or_default(session)
        self.run_restore_ops(session)
        session.run(_initializers(list(self._skipped())))

    def _skipped(self) -> list[Variable]:
        return [each for each in self._optional if full_name(each) not in self._names]


Status = CheckpointLoadStatus | InitializationOnlyStatus | NameBasedSaverStatus
