"""What is run from a terminal: the `headrace` command and its parts."""
