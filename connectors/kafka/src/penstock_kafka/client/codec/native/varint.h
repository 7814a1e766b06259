/* Variable-length integers as Kafka's record format has them: zigzag, then seven bits a byte, lowest first. */
#ifndef PENSTOCK_VARINT_H
#define PENSTOCK_VARINT_H

#include <stdint.h>

/* Sums and differences of what others wrote: they wrap, as in Java. */
static inline int64_t plus(int64_t one, int64_t other) { return (int64_t)((uint64_t)one + (uint64_t)other); }
static inline int64_t minus(int64_t one, int64_t other) { return (int64_t)((uint64_t)one - (uint64_t)other); }

static inline uint64_t zigzag(int64_t number) { return ((uint64_t)number << 1) ^ (uint64_t)(number >> 63); }

static inline int varint_size(int64_t number) {
    int bits = 64 - __builtin_clzll(zigzag(number) | 1);
    return (bits + 6) / 7;
}

/* Returns what follows the number. */
static inline uint8_t *varint_put(uint8_t *at, int64_t number) {
    uint64_t rest = zigzag(number);
    while (rest >= 0x80) {
        *at++ = (uint8_t)(rest | 0x80);
        rest >>= 7;
    }
    *at++ = (uint8_t)rest;
    return at;
}

/* Reads what varint_put has written; returns what follows the number. */
static inline const uint8_t *varint_get(const uint8_t *at, int64_t *number) {
    uint64_t bits = 0;
    int shift = 0;
    for (; *at & 0x80; at++, shift += 7) bits |= (uint64_t)(*at & 0x7f) << shift;
    bits |= (uint64_t)*at++ << shift;
    *number = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
    return at;
}

#endif
