"""Matrices: products, diagonals, decompositions, einsum."""
