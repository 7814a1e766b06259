"""What drivers run: streams as a user would write them; ``key=value`` arguments. See ``harness.driver``."""
