/* Builds one Arrow record batch (a struct array of penstock_kafka.client.RECORD_SCHEMA) out of fetched records. */
#ifndef PENSTOCK_RECORD_BATCH_H
#define PENSTOCK_RECORD_BATCH_H

#include <stddef.h>

#include "arrow.h"

/* How large a batch becomes: counted over its records before it is made. */
struct batch_size {
    int64_t rows;
    int64_t key_bytes;
    int64_t value_bytes;
    int64_t headers;
    int64_t header_key_bytes;
    int64_t header_value_bytes;
};

/* One record without its headers. A null key or value has no start. */
struct record {
    const void *key, *value;
    size_t key_length, value_length;
    int64_t offset;
    int64_t timestamp;      /* ms; negative: none */
    int32_t timestamp_type; /* as Spark counts: 0 create time, 1 log append time, -1 none */
};

struct record_batch;

/* Whether it fits Arrow's 32-bit offsets. */
int record_batch_can_hold(const struct batch_size *size);

/* NULL if there is no memory. */
struct record_batch *record_batch_new(const struct batch_size *size, int with_headers);

/* Copies a header of the record that is appended next; value is NULL for a null. */
void record_batch_add_header(struct record_batch *batch, const void *key, size_t key_length, const void *value,
                             size_t value_length);

/* Copies one record, at most size->rows of them. */
void record_batch_append(struct record_batch *batch, const struct record *record);

/* Hands the memory over to array; its last release frees it. */
void record_batch_finish(struct record_batch *batch, struct ArrowArray *array);

#endif
