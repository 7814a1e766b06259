"""Known vulnerabilities of the locked packages: what ``scripts/audit`` runs.

``requirements.txt`` pins pip-audit. It has an environment of its own, apart from what it audits.
"""
