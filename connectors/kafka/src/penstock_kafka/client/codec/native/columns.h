/* Reads the rows of a record batch of penstock_kafka.client.DELIVERY_SCHEMA through the Arrow C data interface. */
#ifndef PENSTOCK_COLUMNS_H
#define PENSTOCK_COLUMNS_H

#include <stddef.h>

#include "arrow.h"

/* One column. absent: every row is null. */
struct column {
    int absent;
    const uint8_t *valid; /* NULL: no nulls */
    const void *values;   /* offsets, for text, bytes and lists */
    const uint8_t *bytes;
    int64_t shift; /* where the first row is */
    int wide;      /* 64 bit offsets */
};

struct delivery {
    struct column key, value, topic, partition, timestamp;
    struct column headers, header_key, header_value;
    int64_t rows;
};

/* A stretch of memory; start is NULL for a null. */
struct slice {
    const void *start;
    size_t length;
};

void delivery_open(struct delivery *delivery, const struct ArrowSchema *schema, const struct ArrowArray *batch);

static inline int column_is_null(const struct column *column, int64_t row) {
    return column->absent || (column->valid && !bit_is_set(column->valid, column->shift + row));
}

static inline int64_t column_offset(const struct column *column, int64_t row) {
    row += column->shift;
    return column->wide ? ((const int64_t *)column->values)[row] : ((const int32_t *)column->values)[row];
}

static inline struct slice column_bytes(const struct column *column, int64_t row) {
    if (column_is_null(column, row)) return (struct slice){NULL, 0};
    int64_t start = column_offset(column, row), end = column_offset(column, row + 1);
    /* A column of empty values may have no bytes at all, and is not one of nulls. */
    return (struct slice){column->bytes ? (const void *)(column->bytes + start) : "", (size_t)(end - start)};
}

static inline int32_t column_int32(const struct column *column, int64_t row, int32_t if_null) {
    return column_is_null(column, row) ? if_null : ((const int32_t *)column->values)[column->shift + row];
}

static inline int64_t column_int64(const struct column *column, int64_t row, int64_t if_null) {
    return column_is_null(column, row) ? if_null : ((const int64_t *)column->values)[column->shift + row];
}

#endif
