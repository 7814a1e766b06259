/* Builds one Arrow record batch (a struct array of penstock_kafka.client.RECORD_SCHEMA) out of fetched messages. */
#ifndef PENSTOCK_RECORD_BATCH_H
#define PENSTOCK_RECORD_BATCH_H

#include "arrow.h"
#include "librdkafka.h"

/* How large a batch becomes: counted over its messages before it is made. */
struct batch_size {
    int64_t rows;
    int64_t key_bytes;
    int64_t value_bytes;
    int64_t headers;
    int64_t header_key_bytes;
    int64_t header_value_bytes;
};

struct record_batch;

/* Adds message to size and returns its bytes. with_headers parses its headers, which are kept with the message. */
int64_t batch_size_add(struct batch_size *size, const rd_kafka_message_t *message, int with_headers);

/* NULL if there is no memory. */
struct record_batch *record_batch_new(const struct batch_size *size, int with_headers);

/* Copies one message, at most size->rows of them. */
void record_batch_append(struct record_batch *batch, const rd_kafka_message_t *message);

/* Hands the memory over to array; its last release frees it. */
void record_batch_finish(struct record_batch *batch, struct ArrowArray *array);

#endif
