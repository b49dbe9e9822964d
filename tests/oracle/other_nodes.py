OTHER_NODES: dict[str, str] = {}
NO_NODES: list[str] = []
