"""Carrying: clusters, servers, the master and worker services, and the shells that reach them."""
