"""The ground floor: error codes, element types and static shapes.

Everything else may import this folder; it imports nothing of headrace.  Pure values, no I/O,
no threads of its own, safe from any thread.
"""
