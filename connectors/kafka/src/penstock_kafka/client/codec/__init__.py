"""Kafka's record batches from and to Arrow: the compiled encoder and decoder (C in ``native/``), and compression."""

from penstock_kafka.client.codec._compression import MOST_BATCH_BYTES, BatchChunks, compress, decompress
from penstock_kafka.client.codec._decoder import Aborted, Decoded, Scan, decode, scan
from penstock_kafka.client.codec._encoder import RecordEncoder, Rows, SealedBatch, Stop, Stopped, halves, stamp
from penstock_kafka.client.codec._library import native_problem, native_usable
from penstock_kafka.client.codec._old_formats import modernized

__all__ = [
    "MOST_BATCH_BYTES",
    "Aborted",
    "BatchChunks",
    "Decoded",
    "RecordEncoder",
    "Rows",
    "Scan",
    "SealedBatch",
    "Stop",
    "Stopped",
    "compress",
    "decode",
    "decompress",
    "halves",
    "modernized",
    "native_problem",
    "native_usable",
    "scan",
    "stamp",
]
