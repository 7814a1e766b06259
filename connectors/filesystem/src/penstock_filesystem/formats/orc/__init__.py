"""Apache ORC: stripes of columns, decoded with NumPy."""
