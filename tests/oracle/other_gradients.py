OTHER_NODES: dict[str, str] = {}
OTHER_REGISTRATIONS: dict[str, str] = {}
