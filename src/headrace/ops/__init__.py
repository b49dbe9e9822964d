"""The vocabulary: one file per family of ops, each op one block.

Importing this package registers every op.  Families import what they need from each other; a new
family is added to the list below.
"""
