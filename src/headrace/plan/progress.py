"""Progress of a partial run: what has been fed and fetched of what its setup named.

Called by: client.local, serve.master.partials.  Threads: one call of a partial run at a time.
Source of rules and error classes: TF 1.15 behaviour, checked against the oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.base import errors
from headrace.graph.tensor import Tensor


class Progress:
    """What is left to feed and to fetch, by tensor name."""

    def __init__(self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: bool) -> None:
        """targets: whether operations run too.  Raises InvalidArgument (nothing to run, a tensor
        that is both fed and fetched, or fed twice).
        """
        if not fetches and not targets:
            raise errors.invalid_argument(
                "Must specify at least one target to fetch or execute; give some to partial_run_setup"
            )
        for index, tensor in enumerate(feeds):
            if tensor in feeds[:index]:
                raise errors.invalid_argument(f"{tensor.name} is fed twice; name each feed once")
            if tensor in fetches:
                raise errors.invalid_argument(
                    f"{tensor.name} is both fed and fetched; a partial run takes it as one of them"
                )
        self._feeds = {tensor.name: tensor for tensor in feeds}
        self._fetches = {tensor.name: tensor for tensor in fetches}
        self._to_feed = set(self._feeds)
        self._to_fetch = set(self._fetches)

    def advance(self, feeds: Iterable[str], fetches: Iterable[str]) -> bool:
        """Note that `feeds` are fed and `fetches` fetched now; whether that is the last of them.

        Raises InvalidArgument, with no effect: a name that the setup does not have, that had its
        turn, or a fetch for which a feed is missing.
        """
        feeds, fetches = list(feeds), list(fetches)
        for name in feeds:
            self._check(name, "feed", self._feeds, self._to_feed)
        for name in fetches:
            self._check(name, "fetch", self._fetches, self._to_fetch)
        missing = {self._feeds[name] for name in self._to_feed.difference(feeds)}
        for name in fetches:
            lacking = _reached(self._fetches[name], missing) if missing else None
            if lacking is not None:
                raise errors.invalid_argument(
                    f"Fetch {name} can't be computed from the feeds that have been fed so far: feed {lacking.name} too"
                )
        self._to_feed.difference_update(feeds)
        self._to_fetch.difference_update(fetches)
        return not self._to_feed and not self._to_fetch

    @staticmethod
    def _check(name: str, what: str, named: dict[str, Tensor], left: set[str]) -> None:
        if name not in named:
            raise errors.invalid_argument(
                f"The {what} {name} was not specified in partial_run_setup, which has "
                f"{', '.join(named) or 'none'}"
            )
        if name not in left:
            raise errors.invalid_argument(
                f"The {what} {name} has already been {'fed' if what == 'feed' else 'fetched'}: in a partial run "
                "each has its turn once"
            )


def _reached(fetch: Tensor, missing: set[Tensor]) -> Tensor | None:
    """A tensor of `missing` that `fetch` is computed from, if any."""
    seen = {fetch.op}
    stack = [fetch.op]
    while stack:
        op = stack.pop()
        for tensor in op.inputs:
            if tensor in missing:
                return tensor
            if tensor.op not in seen:
                seen.add(tensor.op)
                stack.append(tensor.op)
        for control in op.control_inputs:
            if control not in seen:
                seen.add(control)
                stack.append(control)
    return None


def unknown_handle(handle: str) -> errors.OpError:
    """The error for a partial run that was never set up, or is over."""
    return errors.invalid_argument(
        f"Must run 'setup' before performing partial runs! None is under way that is called {handle!r}: call "
        "partial_run_setup before partial_run; a partial run is over with its last feed and fetch, and with "
        "its first error"
    )
