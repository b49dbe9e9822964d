"""`headrace inspect` and `headrace top`: what a cluster has and does, once or live.

snapshot.py asks, tables.py shows, run.py has the commands.
"""
