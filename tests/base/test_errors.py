"""Errors: codes and classes, the context that is filled once, the text, the journey by pickle."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from headrace.base import errors

# code, name of the constant, class, shorthand
CODES = [
    (1, "CANCELLED", errors.CancelledError, errors.cancelled),
    (2, "UNKNOWN", errors.UnknownError, errors.unknown),
    (3, "INVALID_ARGUMENT", errors.InvalidArgumentError, errors.invalid_argument),
    (4, "DEADLINE_EXCEEDED", errors.DeadlineExceededError, errors.deadline_exceeded),
    (5, "NOT_FOUND", errors.NotFoundError, errors.not_found),
    (6, "ALREADY_EXISTS", errors.AlreadyExistsError, errors.already_exists),
    (7, "PERMISSION_DENIED", errors.PermissionDeniedError, errors.permission_denied),
    (8, "RESOURCE_EXHAUSTED", errors.ResourceExhaustedError, errors.resource_exhausted),
    (9, "FAILED_PRECONDITION", errors.FailedPreconditionError, errors.failed_precondition),
    (10, "ABORTED", errors.AbortedError, errors.aborted),
    (11, "OUT_OF_RANGE", errors.OutOfRangeError, errors.out_of_range),
    (12, "UNIMPLEMENTED", errors.UnimplementedError, errors.unimplemented),
    (13, "INTERNAL", errors.InternalError, errors.internal),
    (14, "UNAVAILABLE", errors.UnavailableError, errors.unavailable),
    (15, "DATA_LOSS", errors.DataLossError, errors.data_loss),
    (16, "UNAUTHENTICATED", errors.UnauthenticatedError, errors.unauthenticated),
]

WHERE: errors.Context = {
    "node": "layer1/matmul",
    "op_type": "MatMul",
    "device": "/job:worker/task:1/cpu:0",
    "step": 118,
    "built_at": "train.py:41",
}


@pytest.mark.parametrize(("code", "constant", "cls", "raiser"), CODES)
def test_code_constant_class_and_shorthand_belong_together(code, constant, cls, raiser):
    assert getattr(errors, constant) == code
    assert errors.exception_type_from_error_code(code) is cls
    assert errors.error_code_from_exception_type(cls) == code
    for error in (cls(None, None, "no"), raiser("no"), errors.make(code, "no")):
        assert type(error) is cls
        assert (error.error_code, error.message, str(error)) == (code, "no", "no")
        assert error.node_def is error.op is error.node is error.step is None


def test_an_unknown_code_is_kept():
    error = errors.make(77, "from a later version")
    assert type(error) is errors.UnknownError
    assert error.error_code == 77


def test_ok_is_no_error():
    with pytest.raises(ValueError, match="not an error"):
        errors.make(errors.OK, "fine")
    with pytest.raises(KeyError):
        errors.exception_type_from_error_code(errors.OK)


def test_the_class_above_all_has_no_code():
    with pytest.raises(KeyError):
        errors.error_code_from_exception_type(errors.OpError)


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ({}, None),
        ({"node": "a"}, "node 'a'"),
        ({"op_type": "Add"}, "op Add"),
        ({"step": 0}, "step 0"),
        ({"device": "/cpu:0"}, "ran on /cpu:0"),
        ({"built_at": "x.py:1", "step": 2}, "built at x.py:1    step 2"),
        (
            WHERE,
            "node 'layer1/matmul' (MatMul)    built at train.py:41    "
            "ran on /job:worker/task:1/cpu:0, step 118",
        ),
    ],
)
def test_the_text_is_the_message_and_an_indented_line_of_context(where, line):
    error = errors.invalid_argument("no", **where)
    assert str(error) == ("no" if line is None else f"no\n  {line}")
    assert error.message == "no"


def test_context_fills_only_what_is_unset():
    error = errors.aborted("no", node="inner", step=0)
    assert error.with_context(node="outer", step=5, device="/cpu:0", op="o", node_def="n") is error
    assert (error.node, error.step, error.device) == ("inner", 0, "/cpu:0")
    assert (error.op, error.node_def) == ("o", "n")


def test_context_refuses_fields_it_does_not_have():
    with pytest.raises(TypeError, match="'task' is not a field"):
        errors.aborted("no").with_context(task="/task:1")  # type: ignore[call-arg]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("code", [1, 2, 3, 77])
def test_pickling_keeps_class_code_and_context(code, protocol):
    error = errors.make(code, "no", node_def="node text", op="layer1/matmul", **WHERE)
    error.add_note("seen by the chief")
    copy = pickle.loads(pickle.dumps(error, protocol))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert (copy.args, str(copy)) == (error.args, str(error))
    assert copy.__notes__ == ["seen by the chief"]


def test_an_operation_pickles_as_its_name():
    operation = SimpleNamespace(name="layer1/matmul", graph=lambda: "not picklable")
    copy = pickle.loads(pickle.dumps(errors.NotFoundError(operation, operation, "no")))
    assert (copy.op, copy.node_def) == ("layer1/matmul", "layer1/matmul")


def test_errors_are_equal_by_identity_and_chain():
    cause = errors.unavailable("ps gone")
    with pytest.raises(errors.AbortedError) as raised:
        raise errors.aborted("step ended") from cause
    assert raised.value.__cause__ is cause
    assert errors.aborted("x") != errors.aborted("x")


def test_a_bare_op_error_takes_any_code():
    error = errors.OpError("def", "op", "no", 9, **WHERE)
    assert (error.node_def, error.op, error.error_code) == ("def", "op", 9)
    assert {name: getattr(error, name) for name in WHERE} == WHERE
