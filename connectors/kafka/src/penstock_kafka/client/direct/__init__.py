"""A producer that writes Kafka's protocol itself: record batches of the compiled part, over kafka-python."""
