"""The lane: framed sockets, and memory that processes of one host share."""
