/*
 * The hash by which Java's client chooses a key's partition: MurmurHash2 (Austin Appleby, public domain) with its seed
 * (org.apache.kafka.common.utils.Utils).
 */
#ifndef PENSTOCK_MURMUR2_H
#define PENSTOCK_MURMUR2_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t murmur2(const uint8_t *bytes, size_t length) {
    const uint32_t multiplier = 0x5bd1e995;
    uint32_t hash = 0x9747b28c ^ (uint32_t)length;
    for (; length >= 4; bytes += 4, length -= 4) {
        uint32_t word;
        memcpy(&word, bytes, 4); /* little-endian machines, like Arrow's buffers here */
        word *= multiplier;
        word ^= word >> 24;
        hash = hash * multiplier ^ word * multiplier;
    }
    if (length >= 3) hash ^= (uint32_t)bytes[2] << 16;
    if (length >= 2) hash ^= (uint32_t)bytes[1] << 8;
    if (length >= 1) hash = (hash ^ bytes[0]) * multiplier;
    hash = (hash ^ hash >> 13) * multiplier;
    return hash ^ hash >> 15;
}

#endif
