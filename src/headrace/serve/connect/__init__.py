"""From a task's name to a peer: routes, calls that are made again, liveness, and why a task is missing."""
