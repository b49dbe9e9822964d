"""Traits: what an op says of itself, in its own block, to those who plan, run and report steps.

``@op(…, traits={MAY_WAIT, SNAPSHOTS})`` declares them; ``MAY_WAIT in op.traits`` asks, of an Operation, an OpSpec or a
`NodeInfo`.  No table elsewhere lists ops by name (`tests/graph/test_traits.py`): who needs to know something of many
ops adds a trait here, says what it promises, and sets it in their blocks.
This is the vocabulary; functions that an op lends to others are in `OpSpec` (``@that.gradient`` and its kin).
Called by: every folder from run up.  Threads: constants.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet


class Trait:
    """One thing that may be true of an op; compared by identity."""

    __slots__ = ("meaning", "name")

    def __init__(self, name: str, meaning: str) -> None:
        self.name = name
        self.meaning = meaning

    def __repr__(self) -> str:
        return self.name


Traits = AbstractSet[Trait]
NONE: frozenset[Trait] = frozenset()

# -- of the schema, as OpDefs have them -------------------------------------------------------------------------------

STATEFUL = Trait(
    "STATEFUL", "OpDef.is_stateful: never folded, never merged with an equal node, runs once a step"
)
KEEPS_NOTHING = Trait(
    "KEEPS_NOTHING",
    "stateful for what it does or looks at, and remembers nothing that a saved position of a dataset would lack",
)
COMMUTATIVE = Trait("COMMUTATIVE", "OpDef.is_commutative")
AGGREGATE = Trait("AGGREGATE", "OpDef.is_aggregate")
ALLOWS_UNINITIALIZED = Trait("ALLOWS_UNINITIALIZED", "OpDef.allows_uninitialized_input")

# -- of the kernel ----------------------------------------------------------------------------------------------------

MAY_WAIT = Trait(
    "MAY_WAIT",
    "the kernel may return a `Pending`; the step goes on with what does not depend on it",
)
POLLS = Trait(
    "POLLS",
    "the kernel may take long, whatever its arrays' sizes, and polls whether the step is to go on while it works "
    "(`run.exec.polling`); it runs in steps alone",
)
SHARES = Trait(
    "SHARES",
    "the kernel shares its work among the task's threads where it is large (`run.exec.worker_pool`)",
)
LETS_OTHERS_RUN = Trait(
    "LETS_OTHERS_RUN",
    "nearly all that the kernel does is one call during which other threads have the interpreter",
)
TOGETHER = Trait(
    "TOGETHER",
    "takes long, depends on nothing but its inputs, and takes less for many elements at once, for most of which other "
    "threads have the interpreter: how is said in `plan.rules.batching_rules`",
)
NEVER_FOLDED = Trait(
    "NEVER_FOLDED", "two runs are not one: never computed ahead of a step, nor merged with an equal"
)
CHECKPOINT = Trait("CHECKPOINT", "a saver's node: saves values, or restores them")
ELEMENTWISE = Trait(
    "ELEMENTWISE",
    "every element of the output is made of the elements at its place alone (inputs broadcast), so that the kernel may "
    "be called with blocks of arrays",
)
NEVER_FAILS = Trait(
    "NEVER_FAILS",
    "it only computes, and cannot fail on inputs of the shapes that the graph promised: to wait for it is to wait for "
    "what it is made of",
)
PER_RECORD = Trait(
    "PER_RECORD",
    "cheap on small arrays, and depends on nothing but its inputs: may be done record by record",
)
AT_ONCE = Trait(
    "AT_ONCE", "takes no time and waits for nothing, so that it may as well be done later"
)
LIGHT = Trait(
    "LIGHT",
    "arithmetic of which updates are made beside those of optimizers: too little to be worth beginning earlier",
)
UPDATES = Trait(
    "UPDATES",
    "changes a variable or a sum of gradients, or reads the rows that are to be changed: worth no message of its own",
)
ASSIGNS = Trait(
    "ASSIGNS",
    "takes (a variable's reference, a value): the variable becomes the value, or what the ufunc that the op lends "
    "(`OpSpec.into`) makes of both",
)
TAKES_PRODUCTS = Trait(
    "TAKES_PRODUCTS",
    "an update whose gradient may be a product of two matrices that is not made yet "
    "(`ops.training.update_rules.Product`)",
)
ASSERTS = Trait(
    "ASSERTS",
    "raises unless its first input holds, and does nothing else: the others are what the error shows",
)
CALLS_USER = Trait("CALLS_USER", "runs a function of the user's, which may do anything")
CALLS_FUNCTION = Trait(
    "CALLS_FUNCTION",
    "calls functions of the graph: replaced by what it calls before a step is planned (`OpSpec.expand`, "
    "`graph.expansion`)",
)
ENQUEUES = Trait("ENQUEUES", "puts elements into a queue")
ENQUEUES_ONE = Trait("ENQUEUES_ONE", "puts one element into a queue")
DEQUEUES = Trait("DEQUEUES", "takes elements out of a queue")
READS_ONE = Trait("READS_ONE", "takes one record from a reader")
MAKES_QUEUE = Trait("MAKES_QUEUE", "makes a queue, and gives the handle of it")
SUMS_GRADIENTS = Trait(
    "SUMS_GRADIENTS", "makes an accumulator, where steps wait for the gradients of others"
)
TAKES_GRADIENTS = Trait(
    "TAKES_GRADIENTS",
    "waits until an accumulator, its first input, has gradients enough, and takes what they make",
)

SIZED_BY_VALUES = Trait(
    "SIZED_BY_VALUES",
    "how much it gives depends on values, so that it is in no program of XLA's; a kernel for devices computes it alone",
)
ITERATES = Trait(
    "ITERATES",
    "goes on from one value to the next, as far as these say, as rejection and elimination do: a processor's work, for "
    "which there is no kernel of arrays",
)
OF_COUNTS = Trait(
    "OF_COUNTS", "computes sizes, places and counts, which are with the host, and so is this"
)
QUANTIZED = Trait("QUANTIZED", "of quantized integers, which the arrays of devices have not")

# -- of its inputs and outputs ----------------------------------------------------------------------------------------

OF_SHAPE = Trait("OF_SHAPE", "the outputs follow from the shapes of the inputs alone")
LIKE_FIRST = Trait(
    "LIKE_FIRST",
    "the first output has the shape of the first input, at which its gradient looks, and not at the output",
)
TELLS_SIZE = Trait(
    "TELLS_SIZE",
    "says how large its one input is: what a loop keeps for its gradient in the place of the input",
)
ALIASES = Trait(
    "ALIASES", "an output may be an input's own buffer or a view of it, so a fetch of it is copied"
)
KEEPS_INPUTS = Trait("KEEPS_INPUTS", "it keeps inputs that nobody will ever change, without a copy")
KEEPS_REFS = Trait("KEEPS_REFS", "a reference input passes on as a reference, as through Identity")
TAKES_REFS = Trait(
    "TAKES_REFS", "the kernel sees to a variable by itself, though it asks for no reference"
)
SNAPSHOTS = Trait(
    "SNAPSHOTS", "a variable's value leaves the step here (send, enqueue), so it is copied untorn"
)
HANDLE = Trait("HANDLE", "the output is the node's resource, the same until a container is emptied")

# -- what nodes are to a graph ----------------------------------------------------------------------------------------

CONST = Trait("CONST", "the output is the attr `value`")
PLACEHOLDER = Trait("PLACEHOLDER", "stands for what is fed")
IDENTITY = Trait(
    "IDENTITY", "gives its input as it is, a reference if it is one, and gradients go through it"
)
OF_SPARSE = Trait("OF_SPARSE", "called with a SparseTensor it is computed of the values alone")
OF_RAGGED = Trait("OF_RAGGED", "called with a ragged tensor it is computed of the innermost values")
OF_TWO_RAGGED = Trait(
    "OF_TWO_RAGGED",
    "called with one or two ragged tensors it is computed of the innermost values, broadcast as operators do",
)
VARIABLE = Trait("VARIABLE", "makes a variable, and gives the reference to it")
READS_VARIABLE = Trait(
    "READS_VARIABLE", "gives the value of the variable whose handle it takes, and does nothing else"
)
READS_HANDLE = Trait(
    "READS_HANDLE", "only reads what stands behind the handles that it takes, if it takes any"
)
DRAWS = Trait(
    "DRAWS",
    "draws numbers at random: whether it runs before or after other nodes with effects does not matter; the array that "
    "it gives is new",
)
DRAWS_BY_SHAPE = Trait(
    "DRAWS_BY_SHAPE",
    "how many numbers it draws follows from shapes and counts: what they are of may be on whichever device",
)
TAKES_BLOCKS = Trait(
    "TAKES_BLOCKS",
    "what it takes ahead of its stream (`OpSpec.takes_ahead`) is `Stream.taken` of as many numbers as follow from "
    "shapes, and from what stays with the host: a program may take that by itself",
)
STAGES = Trait(
    "STAGES",
    "a staging area's: on whichever device, where the values are that were put aside; keys and indices are the host's",
)
STORES = Trait(
    "STORES",
    "keeps values for later in the step, or gives them back: on whichever device, where the values are, and flows; "
    "handles and indices are the host's.  For a device the kernel's `xp` is its namespace, and values are `There`",
)
SESSION_HANDLE = Trait(
    "SESSION_HANDLE",
    "gives the handle of a tensor that the session keeps; fetched, it is a TensorHandle",
)
VAR_HANDLE = Trait("VAR_HANDLE", "gives the handle of a resource variable")
PASSES_LIST = Trait(
    "PASSES_LIST", "of variants: the first output is a list of such elements as the first input is"
)
SEND = Trait("SEND", "leaves a value for another device under a key")
RECEIVE = Trait("RECEIVE", "takes a value that another device has left under a key")
CONTROL_FLOW = Trait("CONTROL_FLOW", "one of those with which branches and loops are built")
SWITCH = Trait("SWITCH", "hands its input to one of two outputs; the other one is dead")
SWITCH_N = Trait("SWITCH_N", "hands its input to one of many outputs; the others are dead")
MERGE = Trait("MERGE", "hands on the input that is not dead")
ENTER = Trait("ENTER", "hands its input into the frame of a loop")
EXIT = Trait("EXIT", "hands its input out of the frame of a loop")
NEXT_ITERATION = Trait("NEXT_ITERATION", "hands its input to the next iteration of a loop")
LOOP_COND = Trait("LOOP_COND", "is a loop's condition")
CONTROL_TRIGGER = Trait("CONTROL_TRIGGER", "runs even when what it waits for is dead")
