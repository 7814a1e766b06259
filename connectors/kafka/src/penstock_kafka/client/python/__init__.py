"""The client on the classes of confluent-kafka, for where the compiled one is missing."""
