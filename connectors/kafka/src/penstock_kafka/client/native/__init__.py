"""The compiled client: C on the librdkafka that confluent-kafka brings along, called through ctypes."""
