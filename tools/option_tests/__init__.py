"""Is there, for each declared option, a test that fails if the option's value is ignored? See CONTRIBUTING.md."""
