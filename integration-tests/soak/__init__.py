"""The programs that ``scripts/soak`` runs: ``soak.kafka``, ``soak.every`` and ``soak.simulate``."""
