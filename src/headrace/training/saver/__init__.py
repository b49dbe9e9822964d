"""Savers: the nodes that save and restore variables, the files beside them, and who keeps how many."""
