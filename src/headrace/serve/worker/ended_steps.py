"""The steps that are over on a task: whoever comes late to one is told so, and why, and nothing is begun for them.

Called by: serve.worker.worker, under its lock.
"""

from __future__ import annotations

from collections import OrderedDict

from headrace.base import errors

_STEPS = 4096
_REASONS = 256
_MOST_TEXT = 2000  # characters of a reason


class EndedSteps:
    """The last steps that have ended, and for the last few of those that failed their errors, without what those hold:
    however many steps fail, and however, no more than that is kept.
    """

    def __init__(self) -> None:
        self._steps: OrderedDict[int, None] = OrderedDict()
        self._reasons: OrderedDict[int, tuple[int, str]] = OrderedDict()

    def add(self, step_id: int, error: errors.OpError | None) -> None:
        """A step has ended, with an error or well; of a step that had ended before, the first end counts."""
        if step_id in self._steps:
            return
        self._steps[step_id] = None
        if len(self._steps) > _STEPS:
            oldest, _ = self._steps.popitem(last=False)
            self._reasons.pop(oldest, None)
        if error is not None:
            self._reasons[step_id] = error.error_code, error.message[:_MOST_TEXT]
            if len(self._reasons) > _REASONS:
                self._reasons.popitem(last=False)

    def __contains__(self, step_id: int) -> bool:
        return step_id in self._steps

    def error(self, step_id: int) -> errors.OpError:
        """For whoever comes too late to one of them."""
        reason = self._reasons.get(step_id)
        return over(step_id) if reason is None else errors.make(*reason)


def over(step_id: int) -> errors.OpError:
    """The error for whoever comes too late to a step."""
    return errors.aborted(f"step {step_id} has ended")
