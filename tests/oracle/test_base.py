"""Element types, static shapes and error codes against TensorFlow's own.

One program (PROGRAM) runs twice, here over headrace.base and in TensorFlow's process; it evaluates
the same expressions and describes what comes out in plain data.  The texts of exceptions are ours,
their classes are TensorFlow's.  Not compared, because TensorFlow's answer is an accident:
`as_dtype(np.int32(1))` and `as_dtype(1.0)` (float32, whose number is 1), bools as dimensions, which
it prints as `True`, the last argument of UnknownError, a code that 2.21 takes and ignores, and
string_ref's NumPy class, which is np.object_ where string's is object.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace import errors
from headrace.base import dtypes, shapes

PROGRAM = """
def describe(v):
    kind = type(v).__name__
    if v is None or isinstance(v, (bool, str)) or type(v) is int:
        return v
    if isinstance(v, (list, tuple)):
        return [describe(x) for x in v]
    if isinstance(v, frozenset):
        return sorted(str(x) for x in v)
    if isinstance(v, type):
        return ["class", v.__module__, v.__name__]
    if isinstance(v, np.dtype):
        return ["np.dtype", str(v)]
    if kind in ("DType", "TensorShape", "Dimension"):
        return [kind, str(v), repr(v)]
    return [kind, float(v)]

def outcome(expression, names):
    try:
        return describe(eval(expression, names))
    except Exception as e:
        return ["raises", type(e).__name__]
"""

ORACLE = """
import ml_dtypes
from tensorflow.python.framework import dtypes as d, op_def_registry

def allowed(op):
    found = [a for a in op_def_registry.get(op).attr if a.name == "T"]
    return frozenset(d.as_dtype(t) for t in found[0].allowed_values.list.type)

def broadcast(a, b):
    return (tf.placeholder("float", a) + tf.placeholder("float", b)).shape

names = dict(
    np=np, ml_dtypes=ml_dtypes, d=d, e=tf.errors, TS=tf.TensorShape, D=tf.Dimension,
    broadcast=broadcast, NUMBERTYPE=allowed("Sum"), REALNUMBERTYPE=allowed("Cross"),
    dimension_value=tf.dimension_value, dimension_at_index=tf.dimension_at_index,
)
result = {expression: outcome(expression, names) for expression in expressions}
"""


def words(text: str) -> list[str]:
    return text.split()


NUMBERS = [*range(1, 34), *range(101, 134)]
DTYPE_ATTRIBUTES = words(
    "name base_dtype real_dtype _as_ref _is_ref_dtype as_numpy_dtype as_datatype_enum is_floating "
    "is_integer is_unsigned is_complex is_bool is_quantized is_numpy_compatible min max "
    "limits size __hash__() __int__()"
)
DTYPES = [
    *(
        f"d.as_dtype({n}).{attribute}"
        for n in NUMBERS
        for attribute in DTYPE_ATTRIBUTES
        if (n, attribute) != (107, "as_numpy_dtype")
    ),
    *(f"[d.as_dtype({n}).is_compatible_with(o) for o in {NUMBERS}]" for n in NUMBERS),
    *(f"[d.as_dtype({n}) == d.as_dtype(o) for o in {NUMBERS}]" for n in NUMBERS),
    *(f"d.as_dtype({n}) == d.as_dtype({n}).as_numpy_dtype" for n in NUMBERS),
    *(f"d.as_dtype(d.as_dtype({n}).name)" for n in NUMBERS),
    *(f"d.{t.name}" for t in map(dtypes.as_dtype, NUMBERS)),
    "[d.half, d.double, d.half_ref, d.double_ref]",
    "d.DType(1)",
    "d.DType(0)",
    "d.DType(None)",
    "d.QUANTIZED_DTYPES",
    "NUMBERTYPE",
    "REALNUMBERTYPE",
    "d.float32.is_compatible_with('foo')",
    *(
        f"{form}"
        for x in (
            *("'float'", "'float_ref'", "'half'", "'double'", "'int'", "'foo'", "'i4'", "'object'"),
            *("float", "int", "bool", "complex", "str", "bytes", "object", "list", "None", "[1]"),
            *("0", "34", "134", "True", "np.int64", "np.longlong", "np.longdouble", "np.void"),
            *("np.str_", "np.bytes_", "np.number", "np.dtype('S5')", "np.dtype('U5')"),
            *("np.dtype('O')", "np.dtype('>i4')", "np.dtype('M8[s]')", "np.array(1.0)"),
            *("np.dtype([('qint8', 'i1')])", "np.dtype([('a', 'i1')])", "ml_dtypes.bfloat16"),
            *("np.array(['a'])", "np.zeros(2, np.uint8)", "ml_dtypes.float8_e3m4"),
        )
        for form in (f"d.as_dtype({x})", f"d.float32 == {x}", f"d.string != {x}")
    ),
]

SIZES = ["None", "0", "1", "3", "7"]
DIMENSIONS = [
    *(f"D({a})" for a in [*SIZES, "-1", "'3'", "2.0", "np.int32(4)", "D(2)", "[1]"]),
    *(
        expression
        for a in SIZES
        for b in [*SIZES, "'a'", "2.5"]
        for op in ("+", "-", "*", "//", "%", "/", "==", "!=", "<", "<=", ">", ">=")
        for expression in (f"D({a}) {op} {b}", f"{b} {op} D({a})", f"D({a}) {op} D({b})")
    ),
    *(
        f"D({a}).{method}({b})"
        for a in SIZES
        for b in [*SIZES, "'a'", "D(3)"]
        for method in ("merge_with", "is_compatible_with", "assert_is_compatible_with")
    ),
    *(f"{f}(D({a}))" for a in SIZES for f in ("int", "float", "bool", "str", "hash", "abs")),
    *(f"dimension_value({a})" for a in ("D(3)", "D(None)", "4", "None")),
    *("[10, 11, 12, 13][D(3)]", "divmod(D(7), 2)", "D(3) ** 2", "D(3).value", "D(None).value"),
]

# Every way a pair of shapes can agree or not: rank, known, unknown, one, zero.
SHAPES = ["None", "[]", "[None]", "[0]", "[1]", "[2]", "[3]", "[None, None]", "[1, 2]", "[2, None]"]
SHAPES += ["[2, 3]", "[None, 1, 4]", "[5, 2, 3]"]
SHAPE_MEMBERS = words(
    "ndims rank dims as_list() num_elements() is_fully_defined() assert_is_fully_defined() "
    "__len__() __bool__() "
)
PAIRWISE = words(
    "merge_with concatenate is_compatible_with assert_is_compatible_with assert_same_rank "
    "most_specific_compatible_shape __eq__ __ne__ __add__"
)
KEYS = words("0 1 -1 5 1: :2 1:3 3:1 -1: :-1 ::2 0:4:2 :: ::-1")
TENSOR_SHAPES = [
    *(f"TS({a})" for a in SHAPES),
    *(f"TS({a}).{member}" for a in SHAPES for member in SHAPE_MEMBERS),
    *(f"list(TS({a}))" for a in SHAPES),
    *(f"TS({a}).{method}(TS({b}))" for a in SHAPES for b in SHAPES for method in PAIRWISE),
    *(f"hash(TS({a})) == hash(TS({a}))" for a in SHAPES),
    *(f"TS({a})[{key}]" for a in SHAPES for key in KEYS),
    *(
        f"TS({a}).{method}({rank})"
        for a in SHAPES
        for rank in range(4)
        for method in ("with_rank", "with_rank_at_least", "with_rank_at_most", "assert_has_rank")
    ),
    *(f"dimension_at_index(TS({a}), 1)" for a in SHAPES),
    *(f"broadcast({a}, {b})" for a in SHAPES for b in SHAPES),
    *(
        f"TS({a})"
        for a in (
            *("5", "-1", "[-1]", "['a']", "'ab'", "[2.0]", "[[1]]", "[np.int64(3)]", "D(3)"),
            *("[D(3), D(None)]", "np.array([1, 2])", "TS([2, None])", "(1, None)", "range(3)"),
        )
    ),
    *("TS([1]) + [2]", "[1] + TS([2])", "TS([1]) + TS(None)", "TS([1]).concatenate(3)"),
    *("TS([1]) == [1]", "TS([1]) == 'x'", "TS([1]) != 'x'", "TS([1]) == None", "TS([1]) != None"),
    *("TS(None) == None", "TS([1]).is_compatible_with(None)", "TS([1]).merge_with([None])"),
]

CODES = [name for name in errors.__all__ if name.isupper()]
CLASSES = [name for name in errors.__all__ if name.endswith("Error")]
ERRORS = [
    *(f"e.{name}" for name in CODES),
    *(f"e.exception_type_from_error_code({code}).__name__" for code in range(18)),
    *(f"e.error_code_from_exception_type(e.{c})" for c in CLASSES if c != "OpError"),
    *(
        f"[x.message, x.error_code, x.node_def, x.op, str(x)] "
        f"if (x := e.{c}(None, None, 'm'{', 9' * (c == 'OpError')})) else None"
        for c in CLASSES
    ),
    *(f"issubclass(e.{c}, e.OpError)" for c in CLASSES),
]

EXPRESSIONS = {
    "dtypes": DTYPES,
    "dimensions": DIMENSIONS,
    "shapes": TENSOR_SHAPES,
    "errors": ERRORS,
}


def broadcast(a: Any, b: Any) -> shapes.TensorShape:
    return shapes.TensorShape(shapes.broadcast(shapes.as_raw(a), shapes.as_raw(b)))


def ours(expressions: list[str]) -> dict[str, Any]:
    names = {
        "np": np,
        "ml_dtypes": ml_dtypes,
        "d": dtypes,
        "e": errors,
        "TS": shapes.TensorShape,
        "D": shapes.Dimension,
        "broadcast": broadcast,
        "NUMBERTYPE": dtypes.NUMBERTYPE,
        "REALNUMBERTYPE": dtypes.REALNUMBERTYPE,
        "dimension_value": shapes.dimension_value,
        "dimension_at_index": shapes.dimension_at_index,
    }
    program: dict[str, Any] = {"np": np}
    exec(PROGRAM, program)
    return {expression: program["outcome"](expression, names) for expression in expressions}


@pytest.fixture(scope="module")
def theirs(oracle: Any) -> dict[str, Any]:
    """What TensorFlow makes of every expression, in one request."""
    every = [expression for group in EXPRESSIONS.values() for expression in group]
    result: dict[str, Any] = oracle.run(PROGRAM + ORACLE, expressions=every)
    return result


@pytest.mark.parametrize("group", EXPRESSIONS)
def test_every_expression_means_the_same(group: str, theirs: dict[str, Any]) -> None:
    differences = [
        f"{expression}: TensorFlow {theirs[expression]}, headrace {mine}"
        for expression, mine in ours(EXPRESSIONS[group]).items()
        if mine != theirs[expression]
    ]
    assert not differences, "\n".join(differences)


def test_the_comparison_sees_what_it_compares(theirs: dict[str, Any]) -> None:
    """Guards against a table of expressions that fail alike on both sides."""
    for group, expressions in EXPRESSIONS.items():
        raised = [x for x in expressions if str(theirs[x]).startswith("['raises'")]
        assert len(raised) < len(expressions) / 2, (group, raised)
        assert not [x for x in raised if theirs[x][1] in ("NameError", "SyntaxError")], group
