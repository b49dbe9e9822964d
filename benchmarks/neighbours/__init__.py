"""headrace beside what people use where they need no graphs: Redis, multiprocessing's managers, plain sockets."""
