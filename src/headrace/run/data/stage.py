"""Stages: what a dataset becomes when it is iterated.  The consumer pulls the last one, which pulls those before it.

A stage gives its elements by chunks, in the order and with the errors of one at a time.  That nobody can tell the
difference, each keeps these rules:

    pull(most)   gives 1 to `most` elements, or None at the end.  It takes from its inputs no more than `most` elements
                 need: what is stateful there runs no further ahead than its consumer asks.
    OpError      is an element that failed.  It is raised when all before it were given, and the next pull goes on
                 behind it; what the failed element takes along (a batch that was begun) is the stage's to say.
    Blocked      is raised where an element will come later.  The stage has noted all it has got until then, so that the
                 next pull goes on as if there had been no other.  So is Interrupted, by `Iteration.check`, which stages
                 call between pulls of a long loop.
    save/restore give and take the position, all that is buffered included, as a tree (`run.data.positions`).

Whoever pulls a stage is the only one to do so.
Called by: run.data.iterator, run.data.prefetching (they pull), ops.data (datasets).  Threads: one at a time per stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.run.data.chunks import Chunk, Element
from headrace.run.pending import Pending
from headrace.run.readers.files import ANYWHERE, Files
from headrace.run.scope import Scope

Position = Any
"""A tree of dicts, lists, ints, bytes, arrays and chunks."""

MANY: Final = 1024
"""Elements that a stage takes at a time which needs as many as there are."""


class Blocked(BaseException):
    """An element will come when `pending` is done."""

    def __init__(self, pending: Pending[Any]) -> None:
        super().__init__()
        self.pending = pending


def waited_for(pending: Pending[Any]) -> str:
    """What a stage waits for, and what that does, for people."""
    info = pending.wait_info
    if info is None:
        return "an element"
    detail = info.detail
    return f"{info.on} ({detail})" if detail else info.on


class Interrupted(BaseException):
    """Nobody wants the element any more, or its consumer has to see to something else first."""


class Threads(Protocol):
    """Where a stage's threads belong."""

    def start(self, target: Callable[..., object], *args: Any, name: str = "") -> Any:
        """See `ThreadGroup.start`."""


class Stats(Protocol):
    """Who wants to know what stages measure."""

    def add(self, tag: str, values: np.ndarray[Any, Any]) -> None:
        """Values of `tag`, at least one.  From any thread."""


class Iteration:
    """One pass over a dataset, as its stages see it.

    check: raises Interrupted when pulling is to stop.  scope: ends with the pass.
    stateful: nodes of functions that remember something, for people.  functions: of its stages, by their names.
    root: the dataset that is iterated, once there is one.
    stats: what stages that measure tell, if anybody wants to know.
    place: of the stage that is being made: the numbers of the inputs that lead to it from the last stage.  seeds: of
    shuffled datasets, by their places.
    remembering: of functions whose nodes remember what they have drawn, those that the whole pass calls: a stage that
    begins again, as with every epoch of a repeat, goes on where it was.
    """

    __slots__ = (
        "check",
        "files",
        "functions",
        "place",
        "remembering",
        "root",
        "scope",
        "seeds",
        "stateful",
        "stats",
        "threads",
    )

    def __init__(
        self,
        files: Files = ANYWHERE,
        check: Callable[[], object] = lambda: None,
        scope: Scope | None = None,
        threads: Threads | None = None,
    ) -> None:
        self.files = files
        self.check = check
        self.scope = Scope() if scope is None else scope
        self.threads = threads
        self.stateful: set[str] = set()
        self.functions: dict[str, ElementFunction] = {}
        self.remembering: dict[Any, Any] = {}
        self.root: Dataset | None = None
        self.stats: Stats | None = None
        self.place: tuple[int, ...] = ()
        self.seeds: dict[Any, Any] = {}

    def measured(self, stats: Stats) -> Iteration:
        """The same for stages whose measures `stats` wants."""
        made = Iteration(self.files, self.check, self.scope, self.threads)
        made.stateful, made.functions, made.stats = self.stateful, self.functions, stats
        made.root, made.remembering = self.root, self.remembering
        made.place, made.seeds = self.place, self.seeds
        return made

    def stage_of(
        self, dataset: Dataset, number: int, place: tuple[int, ...] | None = None
    ) -> Stage:
        """The last stage of input `number` of the stage at `place`, or of the one that is being made."""
        before = self.place
        self.place = (*(before if place is None else place), number)
        try:
            return dataset.stage(self)
        finally:
            self.place = before

    def within(self, scope: Scope) -> Iteration:
        """The same for stages that a thread of their own pulls: `check` looks at `scope`."""

        def check() -> None:
            if scope.error is not None:
                raise Interrupted

        made = Iteration(self.files, check, scope, self.threads)
        made.stateful, made.functions, made.stats = self.stateful, self.functions, self.stats
        made.root, made.remembering = self.root, self.remembering
        made.place, made.seeds = self.place, self.seeds
        return made


class Stage:
    """The base of all: see the module header.

    label: what people read.  place: see `Iteration`.  steady: nobody but its consumer can tell when it is pulled, or
    how often.
    """

    label = ""
    steady = True

    def __init__(self, run: Iteration, *inputs: Stage) -> None:
        self.run = run
        self.place = run.place
        self.inputs = inputs

    def pull(self, most: int) -> Chunk | None:
        """The next elements."""
        raise NotImplementedError

    def buffered(self) -> tuple[int, int] | None:
        """(elements, bytes) that it holds; None if it is not its business to hold any.  From any thread."""
        return None

    def limit(self) -> int | None:
        """How many elements it holds at most."""
        return None

    def save(self) -> Position:
        """The position; what an input knows is that input's."""
        return None

    def saved(self) -> None:
        """All positions were taken: go on.  Called once for each `save`, whatever came of it."""

    def restore(self, position: Position) -> None:
        """Take up a position that `save` gave, on a stage of which nothing was pulled."""

    def close(self) -> None:
        """Let go of files and threads, the inputs' too."""
        for each in self.inputs:
            each.close()

    def all(self) -> Iterator[Stage]:
        """This and those behind it, the last one first.  From any thread."""
        yield self
        for each in self.inputs:
            yield from each.all()


class ElementFunction(Protocol):
    """A function of elements, as stages call it; see `run.data.functions`."""

    def one(self, element: Element, scope: Scope) -> Element:
        """Of one element; waits, if it has to.  Raises OpError."""


class Origin(NamedTuple):
    """Where a dataset comes from that a function of elements gave: it is one of the function's results for them."""

    function: str
    result: int
    arguments: Element


class Part(NamedTuple):
    """Where a dataset comes from that is one of the `parts` of another."""

    holder: Any
    number: int


class Dataset:
    """What a dataset op gives: a description.  It never changes; each iteration makes stages of it.

    types, shapes: of the components.  inputs: the datasets that it is made of.  held: those among its elements.
    origin: None, if nobody has to know.
    """

    kind = ""
    origin: Origin | Part | None = None
    held: Sequence[Dataset] = ()

    def __init__(
        self, types: Sequence[DType], shapes: Sequence[Shape], inputs: Sequence[Dataset] = ()
    ) -> None:
        self.types = tuple(types)
        self.shapes = tuple(shapes)
        self.inputs = tuple(inputs)

    @property
    def parts(self) -> Sequence[Dataset]:
        """The datasets that it is made of or has among its elements."""
        return (*self.inputs, *self.held)

    @property
    def holds(self) -> bool:
        """Whether it, or what it is made of, has datasets among its elements that were there before."""
        return bool(self.held) or any(each.holds for each in self.inputs)

    def note_parts(self) -> None:
        """Let those that it holds be known as its parts, so that a position can name them."""
        if not self.holds:
            return
        for number, part in enumerate(self.parts):
            if not isinstance(part.origin, Origin):
                part.origin = Part(self, number)
            part.note_parts()

    def stage(self, run: Iteration) -> Stage:
        """The last stage of an iteration, which has those before it."""
        raise NotImplementedError

    def cardinality(self) -> int:
        """How many elements it has, if that is known without looking: else UNKNOWN or INFINITE."""
        return UNKNOWN

    def __str__(self) -> str:
        return f"{self.kind or type(self).__name__} dataset"


INFINITE: Final = -1
UNKNOWN: Final = -2


class Made(Dataset):
    """A dataset that is nothing but how to make its stage: make(run, stages of the inputs)."""

    def __init__(
        self,
        kind: str,
        types: Sequence[DType],
        shapes: Sequence[Shape],
        make: Callable[..., Stage],
        inputs: Sequence[Dataset] = (),
        cardinality: Callable[..., int] | int = UNKNOWN,
    ) -> None:
        """make: takes the iteration and the inputs' stages; cardinality: a number, or made of the inputs'."""
        super().__init__(types, shapes, inputs)
        self.kind = kind
        self._make = make
        self._cardinality = cardinality

    def stage(self, run: Iteration) -> Stage:
        """See `Dataset`."""
        inputs = [run.stage_of(each, number) for number, each in enumerate(self.inputs)]
        made = self._make(run, *inputs)
        made.label = self.kind
        return made

    def cardinality(self) -> int:
        """See `Dataset`."""
        if isinstance(self._cardinality, int):
            return self._cardinality
        return self._cardinality(*[each.cardinality() for each in self.inputs])


def typed(error: Exception, where: str) -> errors.OpError:
    """What pulling raised, as an error of its element: memory that is not there, or a bug."""
    if isinstance(error, errors.OpError):
        return error
    found: errors.OpError
    if isinstance(error, MemoryError):
        found = errors.resource_exhausted(f"out of memory in {where} ({error})")
    else:
        found = errors.internal(
            f"{where}: {type(error).__name__}: {error}; this is a bug of headrace: please report it with this text"
        )
    found.__cause__ = error
    return found
