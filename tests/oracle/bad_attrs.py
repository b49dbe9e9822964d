"""Ops called with attrs that they do not have: the same source runs here and on the oracle.

`refusals(tf, cases)`: a case is (op, types of its inputs, how many tensors each argument has (None: no list), attrs,
names of the arguments).  Types are named, in attrs as ("type", name).  For each case the class and the message of what
`tf.raw_ops` raises, or None.
"""


def refusals(tf, cases):
    return [_refusal(tf, *case) for case in cases]


def _refusal(tf, op, types, lists, attrs, names):
    with tf.Graph().as_default():
        fed = iter(
            [tf.placeholder(tf.as_dtype(kind), name=f"p{at}") for at, kind in enumerate(types)]
        )
        given = [
            next(fed) if count is None else [next(fed) for _ in range(count)] for count in lists
        ]
        try:
            getattr(tf.raw_ops, op)(
                **dict(zip(names, given, strict=True)),
                **{name: _value(tf, value) for name, value in attrs.items()},
                name="it",
            )
        except Exception as error:
            return type(error).__name__, str(error)
    return None


def _value(tf, value):
    if isinstance(value, tuple):
        return tf.as_dtype(value[1]) if value[0] == "type" else tf.TensorShape(value[1])
    return [_value(tf, each) for each in value] if isinstance(value, list) else value
