"""What builds on ops and registers none: variables, layers, losses, recurrent networks.

Importing this package gives tensors their operators.  Nothing in ops, plan, serve or client imports it.
"""

from headrace.library import operators

__all__ = ["operators"]
