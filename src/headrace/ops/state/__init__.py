"""Variables: references, resources, scatters into them."""
