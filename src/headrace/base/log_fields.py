"""Fields of log records, for HEADRACE_LOG=json: `log.warning(text, extra={FIELDS: {"step": 7}})`.

Called by: whoever logs what programs may want to look for, base.structured_log.
"""

from __future__ import annotations

from typing import Final

FIELDS: Final = "headrace_fields"
