/* Where things are in the header of a record batch, message format 2 (KIP-98); all numbers are big-endian. */
#ifndef PENSTOCK_FORMAT_H
#define PENSTOCK_FORMAT_H

#include <stdint.h>
#include <string.h>

enum {
    OFFSET_AT = 0,
    LENGTH_AT = 8,
    MAGIC_AT = 16,
    CRC_AT = 17,
    ATTRIBUTES_AT = 21,
    LAST_OFFSET_AT = 23,
    FIRST_TIME_AT = 27,
    LAST_TIME_AT = 35,
    PRODUCER_AT = 43,
    EPOCH_AT = 51,
    SEQUENCE_AT = 53,
    COUNT_AT = 57,
    HEADER_BYTES = 61,
};

enum { PACKED_BITS = 0x07, LOG_APPEND_TIME = 0x08, TRANSACTIONAL = 0x10, CONTROL = 0x20 };

static inline void put16(uint8_t *at, uint16_t number) {
    number = __builtin_bswap16(number);
    memcpy(at, &number, 2);
}

static inline void put32(uint8_t *at, uint32_t number) {
    number = __builtin_bswap32(number);
    memcpy(at, &number, 4);
}

static inline void put64(uint8_t *at, uint64_t number) {
    number = __builtin_bswap64(number);
    memcpy(at, &number, 8);
}

static inline uint16_t get16(const uint8_t *at) {
    uint16_t number;
    memcpy(&number, at, 2);
    return __builtin_bswap16(number);
}

static inline int32_t get32(const uint8_t *at) {
    uint32_t number;
    memcpy(&number, at, 4);
    return (int32_t)__builtin_bswap32(number);
}

static inline int64_t get64(const uint8_t *at) {
    uint64_t number;
    memcpy(&number, at, 8);
    return (int64_t)__builtin_bswap64(number);
}

#endif
