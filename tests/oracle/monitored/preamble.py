"""What the cases of sessions under supervision share; runs on both sides, so it knows nothing of either.

`events` collects what happened: a case ends with its value, or with the error that left it.
"""

events = []


class FakeSaver:
    """In the place of a saver: tells of its calls."""

    saver_def = None

    def build(self):
        events.append("saver.build")

    def restore(self, session, path):
        events.append(("saver.restore", path))

    def recover_last_checkpoints(self, paths):
        events.append(("saver.recover", [str(p) for p in paths]))

    def save(self, session, path, global_step=None, **options):
        events.append(("saver.save", path[-10:], int(global_step), sorted(options.items())))
        return path


def scaffold(**options):
    return tf.train.Scaffold(saver=FakeSaver(), **options)


def chief(**options):
    return tf.train.ChiefSessionCreator(scaffold(**options))


class Creator(tf.train.SessionCreator):
    """Sessions of a chief; the `fails`, by number, end with what they say."""

    def __init__(self, fails=()):
        self.inner = chief()
        self.fails = dict(fails)
        self.made = 0

    def create_session(self):
        self.made += 1
        events.append(("create", self.made))
        if self.made in self.fails:
            raise self.fails[self.made]
        return self.inner.create_session()


def kind(session):
    """Which of a monitored session's sessions it is."""
    return "raw" if isinstance(session, tf.Session) else "wrapped"


class Recorder(tf.train.SessionRunHook):
    """Tells of every call; `acts` are called with the hook and the call's arguments, by phase."""

    def __init__(self, name="h", fetches=None, feeds=None, options=None, **acts):
        self.name, self.acts = name, acts
        self.fetches, self.feeds, self.options = fetches, feeds, options
        self.calls = {}

    def _told(self, phase, what, *arguments):
        events.append((self.name, phase) + what)
        self.calls[phase] = self.calls.get(phase, 0) + 1
        act = self.acts.get(phase)
        if act is not None:
            act(self, *arguments)

    def begin(self):
        self._told("begin", (tf.get_default_graph().finalized,))

    def after_create_session(self, session, coord):
        self._told(
            "after_create_session",
            (kind(session), session.graph.finalized, coord.should_stop()),
            session,
            coord,
        )

    def before_run(self, run_context):
        args = run_context.original_args
        self._told(
            "before_run",
            (
                kind(run_context.session),
                run_context.stop_requested,
                args.feed_dict is None,
                args.options,
            ),
            run_context,
        )
        if self.fetches is None and self.feeds is None and self.options is None:
            return None
        return tf.train.SessionRunArgs(self.fetches, self.feeds, self.options)

    def after_run(self, run_context, run_values):
        results = run_values.results
        told = results if results is None or isinstance(results, (list, dict)) else float(results)
        self._told(
            "after_run",
            (told, run_context.stop_requested, type(run_values.options).__name__),
            run_context,
            run_values,
        )

    def end(self, session):
        self._told("end", (kind(session),), session)


def raises(error, at=1):
    """An act that raises `error`, at that call of its phase; a phase is whatever it is used for."""
    count = [0]

    def act(hook, *arguments):
        count[0] += 1
        if count[0] == at:
            raise error

    return act


def stops(at=1):
    """An act of before_run or after_run that asks for the stop, at that call."""
    count = [0]

    def act(hook, context, *arguments):
        count[0] += 1
        if count[0] == at:
            context.request_stop()

    return act


def caught(function, *says):
    """The class of what `function` raises, and whether its text has each of `says`; or "fine"."""
    try:
        function()
    except Exception as error:
        events.append((type(error).__name__, [phrase in str(error) for phrase in says]))
        return error
    events.append("fine")
    return None


def report(coord, error):
    """As a thread of `coord` reports an error."""
    with coord.stop_on_exception():
        raise error


def model():
    """A counter that every step raises."""
    step = tf.train.get_or_create_global_step()
    return tf.assign_add(step, 1, name="train")


aborted = tf.errors.AbortedError(None, None, "lost")
unavailable = tf.errors.UnavailableError(None, None, "lost")
