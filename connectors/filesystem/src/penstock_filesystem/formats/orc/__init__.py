"""Apache ORC: stripes of columns, read through pyarrow."""
