"""What the user wrote: graphs, nodes, scopes, the op registry, GraphDef, gradients."""
