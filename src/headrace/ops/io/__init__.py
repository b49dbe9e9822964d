"""Files, records, and what is parsed of them."""
