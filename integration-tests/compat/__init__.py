"""What Penstock runs on: a quick smoke test with each Python, library, Java and server, and the page that says so."""
