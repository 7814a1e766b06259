"""A consumer and a producer that speak Kafka's protocol: record batches of the compiled part, over kafka-python."""
