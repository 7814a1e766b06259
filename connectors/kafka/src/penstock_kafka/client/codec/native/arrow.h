/* The Arrow C data interface, as its specification lays the structures out. */
#ifndef PENSTOCK_ARROW_H
#define PENSTOCK_ARROW_H

#include <stdint.h>

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

static inline int bit_is_set(const uint8_t *bits, int64_t index) { return bits[index >> 3] >> (index & 7) & 1; }
static inline void bit_set(uint8_t *bits, int64_t index) { bits[index >> 3] |= (uint8_t)(1 << (index & 7)); }

#endif
