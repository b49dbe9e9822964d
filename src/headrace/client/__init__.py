"""Sessions: feeds in, fetches out."""
