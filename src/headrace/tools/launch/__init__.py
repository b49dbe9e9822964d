"""`headrace launch`: the tasks of a cluster as processes of this host, started, watched, restarted and ended.

roles.py decides which tasks there are and what each runs; supervisor.py runs them; keeper.py ends them should it
be killed.
"""
