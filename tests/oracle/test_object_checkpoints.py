"""Checkpoints of objects beside TensorFlow's: nodes, files byte for byte, what is matched, and what is raised when.

A program has `folder`, `session` and `said`, to which it adds what both must say alike; `tried(f)` gives an outcome.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb

SINCE_1_15 = ("_has_manual_control_dependencies", "allowed_devices")

AROUND = """
def tried(function):
    try:
        function()
        return "ok"
    except AssertionError as error:
        return f"AssertionError: {error}"
    except Exception as error:
        return type(error).__name__
def asserted(status):
    return [
        tried(getattr(status, f"assert_{what}"))
        for what in ("consumed", "existing_objects_matched", "nontrivial_match")
    ]
said = []
with tf.Session() as session:
    run(tf, np, folder, session, said, tried, asserted)
result = tf.get_default_graph().as_graph_def().SerializeToString(), said
"""
TRAINED = """
    a = tf.Variable([1.0, 2.0], name="a")
    b = tf.get_variable("b", [2], use_resource=True, initializer=tf.ones_initializer())
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum(a * b)
    optimizer = {optimizer}
    train = optimizer.minimize(loss, global_step=step)
    c = tf.train.Checkpoint(model=tf.train.Checkpoint(b=b, a=a), o=optimizer, step=step)
    session.run(tf.global_variables_initializer())
    session.run(train)
"""
WRITTEN = TRAINED.format(optimizer="tf.train.AdamOptimizer(0.1)")
OPTIMIZERS = {
    "GradientDescent": "tf.train.GradientDescentOptimizer(0.1)",
    "Momentum": "tf.train.MomentumOptimizer(0.1, 0.9)",
    "Adam": "tf.train.AdamOptimizer(0.1)",
    "Adagrad": "tf.train.AdagradOptimizer(0.1)",
    "Adadelta": "tf.train.AdadeltaOptimizer(0.1)",
    "RMSProp": "tf.train.RMSPropOptimizer(0.1, centered=True)",
    "Ftrl": "tf.train.FtrlOptimizer(0.1)",
    "AdagradDA": "tf.train.AdagradDAOptimizer(0.1, step)",
    "ProximalAdagrad": "tf.train.ProximalAdagradOptimizer(0.1)",
    "ProximalGradientDescent": "tf.train.ProximalGradientDescentOptimizer(0.1)",
}
PROGRAMS: dict[str, str] = {
    "variables of both kinds, saved twice": """
    a = tf.Variable([1.0, 2.0], name="a")
    b = tf.get_variable("b", [2], use_resource=True, initializer=tf.ones_initializer())
    c = tf.train.Checkpoint(b=b, a=a)
    session.run(tf.global_variables_initializer())
    said += [c.save(folder + "/m"), c.save(folder + "/m"), c.write(folder + "/w")]
""",
    "an object that comes between two saves": """
    c = tf.train.Checkpoint(a=tf.Variable(1.0, name="a"))
    session.run(tf.global_variables_initializer())
    said.append(c.save(folder + "/m"))
    c.b = tf.Variable(2.0, name="b")
    session.run(c.b.initializer)
    said.append(c.save(folder + "/m"))
""",
    "lists, dicts and tuples": """
    a, b = tf.Variable([1.0, 2.0], name="a"), tf.Variable(3, name="b", use_resource=True)
    c = tf.train.Checkpoint(z=[a, 3, [b, {"x": a}], (a, b), None, "s", {"a": 1}], d={"y": b, "x": a, "n": []}, e=[])
    c.z.append(a)
    c.z += [b]
    c.z.extend([a, 4])
    c.d.update(u=a)
    c.d["x"] = b
    c.o = [1, 2]
    c.o.pop()
    c.o.append(a)
    session.run(tf.global_variables_initializer())
    c.save(folder + "/m")
    said.append([len(c.z), sorted(c.d), isinstance(c.z, list), isinstance(c.d, dict)])
""",
    "names that need escaping, objects within themselves": """
    a, b = tf.Variable([1.0, 2.0], name="a"), tf.Variable(3, name="b")
    c = tf.train.Checkpoint(**{"x.y": a, "p/q": tf.train.Checkpoint(**{".S": b}), "empty": tf.train.Checkpoint()})
    c.self, c.other = c, tf.train.Checkpoint(up=c, a=a)
    session.run(tf.global_variables_initializer())
    c.save(folder + "/m")
""",
    "parts of a partitioned variable": """
    p = tf.get_variable("p", [4], partitioner=tf.fixed_size_partitioner(2), initializer=tf.ones_initializer())
    c = tf.train.Checkpoint(p=list(p))
    session.run(tf.global_variables_initializer())
    c.save(folder + "/m")
    said.append(tried(lambda: tf.train.Checkpoint(p=p)))
""",
    "restored as it was": WRITTEN
    + """
    path = c.save(folder + "/m")
    session.run(tf.global_variables_initializer())
    status = c.restore(path)
    said += [asserted(status), tried(lambda: status.run_restore_ops(session))]
    said.append([each.tolist() for each in session.run([a, b, step, optimizer.get_slot(a, "m")])])
    again = c.restore(path)
    again.initialize_or_restore()
    said += [asserted(again), c.save(folder + "/n")]
""",
    "restored into what comes later": WRITTEN
    + """
    path = c.save(folder + "/m")
    d = tf.train.Checkpoint()
    status = d.restore(path)
    said.append(asserted(status))
    d.model = tf.train.Checkpoint(a=tf.get_variable("new_a", [2]))
    said.append(asserted(status))
    d.model.b = tf.get_variable("new_b", [2], use_resource=True)
    d.step = tf.get_variable("new_step", [], tf.int64, trainable=False)
    d.o = tf.train.AdamOptimizer(0.1, name="Q")
    said.append(asserted(status))
    d.o.minimize(tf.reduce_sum(d.model.a * d.model.b), var_list=[d.model.a, d.model.b])
    said.append(asserted(status))
    status.run_restore_ops()
    said.append([each.tolist() for each in session.run([d.model.a, d.model.b, d.o.get_slot(d.model.b, "v")])])
""",
    "slots of variables that come before their optimizer is known": WRITTEN
    + """
    path = c.save(folder + "/m")
    d = tf.train.Checkpoint(model=tf.train.Checkpoint(a=tf.get_variable("new_a", [2])))
    late = tf.train.AdamOptimizer(0.1, name="Q")
    late.minimize(tf.reduce_sum(d.model.a * 2.0), var_list=[d.model.a])
    status = d.restore(path)
    d.o = late
    said.append(asserted(status))
    status.initialize_or_restore()
    said.append(session.run(late.get_slot(d.model.a, "m")).tolist())
    status.expect_partial()
""",
    "restored into what has more": WRITTEN
    + """
    path = c.save(folder + "/m")
    d = tf.train.Checkpoint(step=tf.get_variable("s", [], tf.int64), more=tf.get_variable("more", [3]), u=[[]])
    status = d.restore(path)
    said.append(asserted(status))
    status.initialize_or_restore(session)
    said.append([session.run(d.step).tolist(), session.run(d.more).shape])
    status.expect_partial()
""",
    "restored into what has nothing of it": """
    c = tf.train.Checkpoint(a=tf.Variable(1.0, name="a"))
    session.run(tf.global_variables_initializer())
    path = c.write(folder + "/w")
    for d in (tf.train.Checkpoint(k=tf.get_variable("k", [2])), tf.train.Checkpoint()):
        status = d.restore(path)
        said.append([each.partition(" Showing ")[0] for each in asserted(status)][:2])
        said.append(tried(status.assert_nontrivial_match).partition(": [")[0].partition(" to <")[0])
        status.expect_partial()
""",
    "restored from nothing": """
    c = tf.train.Checkpoint(a=tf.get_variable("a", [], initializer=tf.ones_initializer()))
    status = c.restore(None)
    said += [asserted(status), tried(status.run_restore_ops), tried(status.expect_partial)]
    status.initialize_or_restore(session)
    said += [session.run(c.a).tolist(), session.run(c.save_counter).tolist()]
    said += [tried(lambda: c.restore(folder + "/none")), tried(lambda: c.restore(""))]
""",
    "another shape, another type": """
    c = tf.train.Checkpoint(a=tf.Variable([1.0, 2.0], name="a"))
    session.run(tf.global_variables_initializer())
    path = c.save(folder + "/m")
    for made in (
        tf.get_variable("shape", [3]),
        tf.get_variable("dtype", [2], tf.float64),
        tf.get_variable("held", [2], tf.float64, use_resource=True),
    ):
        d = tf.train.Checkpoint(a=made)
        said.append(tried(lambda: d.restore(path).run_restore_ops()))
    said.append(tried(lambda: tf.train.Checkpoint(a=tf.get_variable("h", [3], use_resource=True)).restore(path)))
""",
    "one object that is two here": """
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    c = tf.train.Checkpoint(x=a, y=a)
    session.run(tf.global_variables_initializer())
    path = c.save(folder + "/m")
    said.append(asserted(tf.train.Checkpoint(x=a, y=b).restore(path)))
    d = tf.train.Checkpoint(y=tf.train.Checkpoint(z=a), u=tf.train.Checkpoint(o=tf.train.Checkpoint()))
    status = d.restore(path)
    said.append(asserted(status)[1:])
""",
    "what cannot be saved": """
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    for bad in (tf.constant(1.0), 3, "x", None, np.zeros(2), object(), (1, 2), (), {1}, tf.train.Saver([a])):
        said.append(tried(lambda: tf.train.Checkpoint(z=bad)))
    session.run(tf.global_variables_initializer())
    def popped(x): x.pop()
    def replaced(x): x[0] = b
    def deleted(x): del x[0]
    def inserted(x): x.insert(0, b)
    def reversed(x): x.reverse()
    def cleared(x): x.clear()
    def added(x): x *= 2
    for change in (popped, replaced, deleted, inserted, reversed, cleared, added):
        c = tf.train.Checkpoint(z=[a, b])
        change(c.z)
        said.append(tried(lambda: c.write(folder + "/w")))
    outside = [a]
    c = tf.train.Checkpoint(z=outside)
    outside.append(b)
    said.append(tried(lambda: c.write(folder + "/w")))
    outside = {"a": a}
    c = tf.train.Checkpoint(z=outside)
    outside["b"] = b
    said.append(tried(lambda: c.write(folder + "/w")))
    c = tf.train.Checkpoint(z={3: a})
    said.append(tried(lambda: c.write(folder + "/w")))
    c = tf.train.Checkpoint(z={3: 4})
    said.append(tried(lambda: c.write(folder + "/w")))
    said.append(tried(lambda: tf.train.Checkpoint(n=a)._track_trackable(b, "n")))
    said.append(tried(lambda: tf.train.Checkpoint(n=a)._track_trackable(3, "m")))
""",
    "a slot that is a child, a slot whose variable is none": WRITTEN
    + """
    said.append(tried(lambda: tf.train.Checkpoint(a=a, o=optimizer, m=optimizer.get_slot(a, "m")).write(folder + "/m")))
    tf.train.Checkpoint(o=optimizer).write(folder + "/n")
""",
    "variables without values, directories that are not there": """
    c = tf.train.Checkpoint(a=tf.Variable([1.0, 2.0], name="a"))
    said.append(tried(lambda: c.save(folder + "/m")))
    session.run(c.a.initializer)
    said.append(c.save(folder + "/new/er/m"))
""",
    "a graph that is final": """
    c = tf.train.Checkpoint(a=tf.Variable([1.0, 2.0], name="a"))
    session.run(tf.global_variables_initializer())
    path = c.save(folder + "/m")
    c.restore(path)
    new = tf.train.Checkpoint(a=c.a)
    tf.get_default_graph().finalize()
    said.append([tried(lambda: c.save(folder + "/m")), tried(lambda: c.restore(path))])
    said.append([tried(lambda: new.save(folder + "/m")), tried(lambda: new.restore(path))])
""",
    "several tasks": """
    with tf.device("/job:ps/task:1"): a = tf.Variable([1.0], name="a")
    with tf.device("/job:ps/task:0"):
        b = tf.Variable([2.0], name="b", use_resource=True)
        d = tf.Variable(3.0, name="d")
    with tf.device("/job:ps/task:0/gpu:0"): e = tf.Variable(4.0, name="e", use_resource=True)
    c = tf.train.Checkpoint(a=a, b=b, d=d, e=e)
    c.save_counter
    said.append(tried(lambda: c.write(folder + "/m")))
    with tf.Graph().as_default(), tf.Session() as other:
        plain = tf.train.Checkpoint(**{k: tf.Variable([1.0], name=k) for k in "abde"})
        other.run(tf.global_variables_initializer())
        path = plain.save(folder + "/n", session=other)
    c.restore(path)
""",
    "under scopes, devices and control dependencies": """
    with tf.name_scope("n"), tf.device("/cpu:0"), tf.variable_scope("v"):
        a = tf.Variable([1.0], name="a", caching_device="/cpu:0")
        b = tf.get_variable("b", [2], use_resource=True, initializer=tf.ones_initializer())
        session.run(tf.global_variables_initializer())
        c = tf.train.Checkpoint(a=a, b=b)
        with tf.control_dependencies([tf.no_op("before")]):
            path = c.save(folder + "/m")
            status = c.restore(path)
        status.run_restore_ops()
""",
    "a manager": """
    c = tf.train.Checkpoint(b=tf.Variable(1.0, name="b", use_resource=True), a=tf.Variable([2.0], name="a"))
    session.run(tf.global_variables_initializer())
    m = tf.train.CheckpointManager(c, folder + "/d", max_to_keep=2)
    said += [m.latest_checkpoint, m.checkpoints, m.directory]
    said += [m.save(), m.save(), m.save(), m.save(checkpoint_number=77), m.save(tf.constant(5))]
    said.append(m.checkpoints)
    n = tf.train.CheckpointManager(c, folder + "/d", max_to_keep=3, checkpoint_name="x")
    said += [n.checkpoints, n.latest_checkpoint, n.save(), n.checkpoints, n.latest_checkpoint]
    said += [n.save(77), n.checkpoints]
    c.restore(n.latest_checkpoint).assert_consumed().run_restore_ops()
    said.append(int(session.run(c.save_counter)))
    for wrong in (0, -1):
        said.append(tried(lambda: tf.train.CheckpointManager(c, folder, max_to_keep=wrong)))
    e = tf.train.CheckpointManager(c, folder + "/new/er", None, 1.5)
    said += [e.save(), e.save(), e.checkpoints]
""",
    "a manager of what another save has counted": """
    c = tf.train.Checkpoint(a=tf.Variable([2.0], name="a"))
    session.run(tf.global_variables_initializer())
    said.append(c.save(folder + "/d/ckpt"))
    m = tf.train.CheckpointManager(c, folder + "/d", max_to_keep=1)
    said += [m.checkpoints, m.save(), m.checkpoints]
""",
    **{
        f"slots of {name}": TRAINED.format(optimizer=made).replace("session.run(train)", "")
        + """
    path = c.save(folder + "/m")
    session.run(tf.global_variables_initializer())
    c.restore(path).assert_consumed().run_restore_ops()
    said.append([session.run(each).round(6).tolist() for each in optimizer.variables()])
"""
        for name, made in OPTIMIZERS.items()
    },
}


class Sides:
    """Both, as programs that are handed to them."""

    def __init__(self, oracle: Any) -> None:
        self.oracle = oracle

    def run(self, side: str, source: str, **names: Any) -> Any:
        program = f"def run(tf, np, folder, session, said, tried, asserted):\n{source}\n{AROUND}"
        if side == "theirs":
            graph, said = self.oracle.run(program, **names)
        else:
            with tf.Graph().as_default():
                inside: dict[str, Any] = {"tf": tf, "np": np, **names}
                exec(program, inside)
                graph, said = inside["result"]
        return pb.GraphDef.FromString(graph), said


@pytest.fixture
def sides(oracle: Any) -> Sides:
    return Sides(oracle)


def as_of_1_15(graph: pb.GraphDef) -> pb.GraphDef:
    kept = [node for node in graph.node if node.op != "DisableCopyOnRead"]
    for node in kept:
        for attr in SINCE_1_15:
            node.attr.pop(attr, None)
    return pb.GraphDef(node=kept)


def files_of(folder: Path) -> dict[str, bytes]:
    """By name; without the lines that say when something was written."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    return {
        name: re.sub(rb"\w+_timestamps?: \S+\n", b"", path.read_bytes())
        for name, path in found.items()
        if path.is_file()
    }


@pytest.mark.parametrize("case", PROGRAMS)
def test_nodes_files_matches_and_errors_are_those_of_tensorflow(
    sides: Sides, graph_differences: Any, tmp_path: Path, case: str
) -> None:
    found = {}
    for side in ("ours", "theirs"):
        folder = tmp_path / side / "x"
        folder.mkdir(parents=True)
        graph, said = sides.run(side, PROGRAMS[case], folder=str(folder))
        shown = repr(said).replace(str(folder), "FOLDER")
        found[side] = as_of_1_15(graph), shown, files_of(folder)
    ours, theirs = found["ours"], found["theirs"]
    assert graph_differences(ours[0], theirs[0]) == []
    assert ours[1] == theirs[1]
    assert list(ours[2]) == list(theirs[2])
    assert [name for name in ours[2] if ours[2][name] != theirs[2][name]] == []


GOES_ON = """
    a = tf.Variable(np.linspace(-1, 1, 6), name="a", use_resource=held)
    b = tf.get_variable("b", [6], tf.float64, tf.ones_initializer())
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdamOptimizer(0.1)
    loss = tf.reduce_sum(tf.square(tf.convert_to_tensor(a) * tf.convert_to_tensor(b) - 0.3))
    train = optimizer.minimize(loss, global_step=step)
    c = tf.train.Checkpoint(parts=[a, {"b": b}], optimizer=optimizer, step=step)
    manager = tf.train.CheckpointManager(c, folder, max_to_keep=2)
    c.restore(manager.latest_checkpoint).initialize_or_restore()
    losses = [float(session.run([loss, train])[0]) for _ in range(3)]
    manager.save()
    said += [losses, int(session.run(step)), [each.rpartition("/")[2] for each in manager.checkpoints]]
"""


@pytest.mark.parametrize("held", [False, True], ids=["references", "resources"])
@pytest.mark.parametrize("order", ["ours theirs ours", "theirs ours theirs"])
def test_a_training_that_one_begins_the_other_goes_on_with(
    sides: Sides, tmp_path: Path, order: str, held: bool
) -> None:
    source = GOES_ON.replace("held", str(held))
    (tmp_path / "alone").mkdir()
    (tmp_path / "together").mkdir()
    wanted = [sides.run("theirs", source, folder=str(tmp_path / "alone"))[1] for _ in range(3)]
    found = [
        sides.run(side, source, folder=str(tmp_path / "together"))[1] for side in order.split()
    ]
    for ours, theirs in itertools.zip_longest(found, wanted):
        assert np.allclose(ours[0], theirs[0], rtol=1e-12)
        assert ours[1:] == theirs[1:]
    assert list(files_of(tmp_path / "alone")) == list(files_of(tmp_path / "together"))


BY_NAME = """
    a = tf.get_variable("a", initializer=[1.0, 2.0])
    b = tf.get_variable("b", initializer=[3.0], use_resource=True)
    if writes:
        session.run(tf.global_variables_initializer())
        if by_name:
            tf.train.Saver([a, b]).save(session, folder + "/m")
        else:
            tf.train.Checkpoint(x=a, y=[b]).write(folder + "/m")
    elif by_name:
        status = tf.train.Checkpoint(x=a, y=[b]).restore(folder + "/m")
        status.initialize_or_restore()
        said.append([each.tolist() for each in session.run([a, b])])
    else:
        saver = tf.train.Saver([a, b])
        saver.restore(session, folder + "/m")
        saver.restore(session, folder + "/m")
        said.append([each.tolist() for each in session.run([a, b])])
        c = tf.get_variable("c", [2])
        said.append(tried(lambda: tf.train.Saver([a, c]).restore(session, folder + "/m")))
"""


@pytest.mark.parametrize("by_name", [False, True], ids=["of objects", "by names"])
@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_checkpoints_of_objects_and_those_by_names_are_read_as_the_other(
    sides: Sides, tmp_path: Path, writer: str, by_name: bool
) -> None:
    """TensorFlow's Checkpoint cannot restore by names here: it asks for its own counter, which a saver's file lacks."""

    def source(writes: bool) -> str:
        return BY_NAME.replace("writes", str(writes)).replace("by_name", str(by_name))

    sides.run(writer, source(True), folder=str(tmp_path))
    _, said = sides.run("ours", source(False), folder=str(tmp_path))
    assert said[0] == [[1.0, 2.0], [3.0]]
    if not by_name:
        assert said == sides.run("theirs", source(False), folder=str(tmp_path))[1]
