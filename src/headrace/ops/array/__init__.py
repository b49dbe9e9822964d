"""Arrays: shapes, joining, slicing, gathering, padding, constants."""
