"""Carrying: clusters, servers, the master and worker services, and the transports that reach them."""
