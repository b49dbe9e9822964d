"""Rules: nodes that run together, found in the order of the table; one file a rule.

A rule is a `Rule` (`plan.rules.group`): which nodes it begins with, which belong together, how they run at once.
Each rule sees the step as those before it have left it.  `batched` is another table: of nodes that do their work for
many records at a time, for the batch dequeuer.
"""
