#include "record_batch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The arrays of a batch: the root first, then its columns, then what headers are made of. */
enum { ROOT, KEY, VALUE, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS, HEADER, HEADER_KEY, HEADER_VALUE, ARRAYS };
enum { COLUMNS = 6, MAX_BUFFERS = 3, ALIGNMENT = 64 };

struct binary_column {
    uint8_t *valid;
    int32_t *offsets;
    uint8_t *data;
    int64_t rows;
    int64_t nulls;
};

/* Lives at the start of the one block of memory that holds all buffers, until every array made of it is released. */
struct record_batch {
    atomic_int users;
    int with_headers;
    int64_t rows;
    struct binary_column key, value, header_key, header_value;
    int64_t *offsets;
    uint8_t *timestamp_valid;
    int64_t *timestamps;
    int64_t timestamp_nulls;
    int32_t *timestamp_types;
    uint8_t *headers_valid;
    int32_t *headers_offsets;
    int64_t headers_nulls;
    struct ArrowArray arrays[ARRAYS];
    struct ArrowArray *columns[COLUMNS];
    struct ArrowArray *list_items[1];
    struct ArrowArray *struct_fields[2];
    const void *buffers[ARRAYS][MAX_BUFFERS];
};

/* Takes bytes of the block that *at points into; with a NULL block it only counts. */
static void *carve(uint8_t *block, size_t *at, size_t bytes) {
    size_t start = (*at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *at = start + bytes;
    return block ? block + start : NULL;
}

static void carve_binary(struct binary_column *column, uint8_t *block, size_t *at, int64_t rows, int64_t bytes) {
    column->valid = carve(block, at, (size_t)(rows / 8 + 1));
    column->offsets = carve(block, at, sizeof(int32_t) * (size_t)(rows + 1));
    column->data = carve(block, at, (size_t)bytes);
    if (block) {
        memset(column->valid, 0, (size_t)(rows / 8 + 1));
        column->offsets[0] = 0;
    }
}

static size_t lay_out(struct record_batch *batch, uint8_t *block, const struct batch_size *size, int with_headers) {
    size_t at = sizeof *batch;
    size_t rows = (size_t)size->rows;
    carve_binary(&batch->key, block, &at, size->rows, size->key_bytes);
    carve_binary(&batch->value, block, &at, size->rows, size->value_bytes);
    batch->offsets = carve(block, &at, sizeof(int64_t) * rows);
    batch->timestamps = carve(block, &at, sizeof(int64_t) * rows);
    batch->timestamp_types = carve(block, &at, sizeof(int32_t) * rows);
    batch->timestamp_valid = carve(block, &at, rows / 8 + 1);
    if (with_headers) {
        batch->headers_valid = carve(block, &at, rows / 8 + 1);
        batch->headers_offsets = carve(block, &at, sizeof(int32_t) * (rows + 1));
        carve_binary(&batch->header_key, block, &at, size->headers, size->header_key_bytes);
        carve_binary(&batch->header_value, block, &at, size->headers, size->header_value_bytes);
    }
    return at;
}

int record_batch_can_hold(const struct batch_size *size) {
    return size->rows < INT32_MAX && size->headers < INT32_MAX && size->key_bytes <= INT32_MAX &&
           size->value_bytes <= INT32_MAX && size->header_key_bytes <= INT32_MAX &&
           size->header_value_bytes <= INT32_MAX;
}

struct record_batch *record_batch_new(const struct batch_size *size, int with_headers) {
    struct record_batch counted;
    size_t bytes = lay_out(&counted, NULL, size, with_headers);
    void *block = NULL;
    if (posix_memalign(&block, ALIGNMENT, bytes) != 0) return NULL;
    struct record_batch *batch = block;
    memset(batch, 0, sizeof *batch);
    lay_out(batch, block, size, with_headers);
    batch->with_headers = with_headers;
    memset(batch->timestamp_valid, 0, (size_t)(size->rows / 8 + 1));
    if (with_headers) {
        memset(batch->headers_valid, 0, (size_t)(size->rows / 8 + 1));
        batch->headers_offsets[0] = 0;
    }
    return batch;
}

static inline void append_binary(struct binary_column *column, const void *bytes, size_t length) {
    int64_t row = column->rows++;
    int32_t start = column->offsets[row];
    if (bytes) {
        bit_set(column->valid, row);
        memcpy(column->data + start, bytes, length);
        column->offsets[row + 1] = start + (int32_t)length;
    } else {
        column->nulls++;
        column->offsets[row + 1] = start;
    }
}

void record_batch_add_header(struct record_batch *batch, const void *key, size_t key_length, const void *value,
                             size_t value_length) {
    append_binary(&batch->header_key, key, key_length);
    append_binary(&batch->header_value, value, value_length);
}

void record_batch_append(struct record_batch *batch, const struct record *record) {
    int64_t row = batch->rows++;
    append_binary(&batch->key, record->key, record->key_length);
    append_binary(&batch->value, record->value, record->value_length);
    batch->offsets[row] = record->offset;
    batch->timestamps[row] = record->timestamp;
    batch->timestamp_types[row] = record->timestamp_type;
    if (record->timestamp >= 0)
        bit_set(batch->timestamp_valid, row);
    else
        batch->timestamp_nulls++;
    if (!batch->with_headers) return;
    if (batch->header_key.rows > batch->headers_offsets[row])
        bit_set(batch->headers_valid, row);
    else
        batch->headers_nulls++;
    batch->headers_offsets[row + 1] = (int32_t)batch->header_key.rows;
}

/* Arrow allows a child to be moved out of its parent, so every array holds the block on its own. */
static void release_array(struct ArrowArray *array) {
    struct record_batch *batch = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        struct ArrowArray *child = array->children[i];
        if (child->release) child->release(child);
    }
    array->release = NULL;
    if (atomic_fetch_sub(&batch->users, 1) == 1) free(batch);
}

static void fill(struct record_batch *batch, int which, int64_t length, int64_t nulls, const void *valid,
                 const void *second, const void *third) {
    struct ArrowArray *array = &batch->arrays[which];
    const void **buffers = batch->buffers[which];
    buffers[0] = nulls ? valid : NULL;
    buffers[1] = second;
    buffers[2] = third;
    *array = (struct ArrowArray){.length = length,
                                 .null_count = nulls,
                                 .n_buffers = third ? 3 : second ? 2 : 1,
                                 .buffers = buffers,
                                 .release = release_array,
                                 .private_data = batch};
    atomic_fetch_add(&batch->users, 1);
}

static void fill_binary(struct record_batch *batch, int which, const struct binary_column *column) {
    fill(batch, which, column->rows, column->nulls, column->valid, column->offsets, column->data);
}

static void adopt(struct ArrowArray *parent, struct ArrowArray **slots, int count, struct ArrowArray *first) {
    parent->n_children = count;
    parent->children = slots;
    for (int i = 0; i < count; i++) slots[i] = first + i;
}

void record_batch_finish(struct record_batch *batch, struct ArrowArray *array) {
    struct ArrowArray *arrays = batch->arrays;
    fill(batch, ROOT, batch->rows, 0, NULL, NULL, NULL);
    fill_binary(batch, KEY, &batch->key);
    fill_binary(batch, VALUE, &batch->value);
    fill(batch, OFFSET, batch->rows, 0, NULL, batch->offsets, NULL);
    fill(batch, TIMESTAMP, batch->rows, batch->timestamp_nulls, batch->timestamp_valid, batch->timestamps, NULL);
    fill(batch, TIMESTAMP_TYPE, batch->rows, 0, NULL, batch->timestamp_types, NULL);
    adopt(&arrays[ROOT], batch->columns, batch->with_headers ? COLUMNS : COLUMNS - 1, &arrays[KEY]);
    if (batch->with_headers) {
        fill(batch, HEADERS, batch->rows, batch->headers_nulls, batch->headers_valid, batch->headers_offsets, NULL);
        fill(batch, HEADER, batch->header_key.rows, 0, NULL, NULL, NULL);
        fill_binary(batch, HEADER_KEY, &batch->header_key);
        fill_binary(batch, HEADER_VALUE, &batch->header_value);
        adopt(&arrays[HEADERS], batch->list_items, 1, &arrays[HEADER]);
        adopt(&arrays[HEADER], batch->struct_fields, 2, &arrays[HEADER_KEY]);
    }
    *array = arrays[ROOT];
    arrays[ROOT].release = NULL;
}
