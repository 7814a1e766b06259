/* Variable-length integers as Kafka's record format has them: zigzag, then seven bits a byte, lowest first. */
#ifndef PENSTOCK_VARINT_H
#define PENSTOCK_VARINT_H

#include <stdint.h>

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

#endif
