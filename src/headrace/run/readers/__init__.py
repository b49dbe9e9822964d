"""Files, and readers of records in them."""
