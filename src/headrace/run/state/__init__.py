"""State that outlives steps: resources, variables, accumulators, barriers, staging areas."""
