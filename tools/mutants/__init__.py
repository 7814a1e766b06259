"""``scripts/mutants``: mutation testing of the commit protocol. Each mutant is the code with one small fault."""
