"""The programs that ``scripts/soak`` runs: ``soak.kafka``, ``soak.every``, ``soak.simulate`` and ``soak.fuzz``."""
