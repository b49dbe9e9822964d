"""What a graph costs: floating point operations, parameters, time and memory, as tables and trees."""
