"""What a task has, which of its steps wait, and why."""
