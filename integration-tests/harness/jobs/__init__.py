"""Jobs that ``harness.driver`` runs: streams as a user would write them, with ``key=value`` arguments."""
