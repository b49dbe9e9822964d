"""Variables: made, found again by name, initialized, kept in collections, cut into parts."""
