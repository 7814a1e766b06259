"""How each kind of bytes is read, as the connectors do it, and whole examples of it."""
