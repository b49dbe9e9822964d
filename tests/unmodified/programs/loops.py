"""Loops and branches: Collatz, Fibonacci into a TensorArray, a polynomial by scan, powers with gradients."""

from tensorflow.python.client.session import Session
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.ops import (
    array_ops,
    control_flow_ops,
    functional_ops,
    gradients_impl,
    math_ops,
    tensor_array_ops,
)
from tensorflow.python.util import nest
from tensorflow.python.util.deprecation import deprecated


def collatz(start):
    def step(n, count):
        n = control_flow_ops.cond(
            math_ops.equal(math_ops.mod(n, 2), 0), lambda: n // 2, lambda: 3 * n + 1
        )
        return n, count + 1

    return control_flow_ops.while_loop(lambda n, count: n > 1, step, [start, 0])[1]


def fibonacci(count):
    array = tensor_array_ops.TensorArray(dtypes.int32, size=count, clear_after_read=False)
    array = array.write(0, 0).write(1, 1)
    body = lambda i, a: (i + 1, a.write(i, a.read(i - 1) + a.read(i - 2)))  # noqa: E731
    _, array = control_flow_ops.while_loop(lambda i, _: i < count, body, [2, array])
    return array.stack()


@deprecated(None, "Use polynomial.")
def horner(coefficients, x):
    return functional_ops.foldl(lambda total, each: total * x + each, coefficients)


fed = array_ops.placeholder(dtypes.int32, [])
x = array_ops.placeholder(dtypes.float32, [])
power = control_flow_ops.while_loop(lambda i, _: i < 5, lambda i, p: (i + 1, p * x), [0, 1.0])[1]
chosen = control_flow_ops.case(
    [(x < 0.0, lambda: "negative"), (x > 0.0, lambda: "positive")], default=lambda: "zero"
)
fetches = nest.map_structure(ops.convert_to_tensor, {"power": power, "sign": chosen})
with Session() as sess:
    print("collatz", sess.run(collatz(fed), {fed: 27}))
    print("fibonacci", *sess.run(fibonacci(10)))
    print("horner", sess.run(horner(ops.convert_to_tensor([2.0, -3.0, 1.0]), x), {x: 2.0}))
    print("power", sess.run([power, gradients_impl.gradients(power, x)[0]], {x: 2.0}))
    print("case", *[sess.run(fetches, {x: value})["sign"].decode() for value in (-1, 0, 1)])
