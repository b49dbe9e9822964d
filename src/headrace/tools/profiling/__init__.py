"""`headrace profile`: steps of a running cluster, traced, and in words where their time goes."""
