#include "crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

static const uint32_t POLYNOMIAL = 0x82f63b78; /* reflected */

/* Bytes of a lane: the instruction has a result after three cycles, and can begin one in each. */
enum { LANE = 256 };

/* tables[n][byte]: what a byte that is followed by n zero bytes adds. */
static uint32_t tables[8][256];
/* lane_tables[n][byte]: what the byte n of a remainder has become LANE zero bytes later. */
static uint32_t lane_tables[4][256];
static pthread_once_t tables_made = PTHREAD_ONCE_INIT;

static void make_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        tables[0][byte] = crc;
    }
    for (int n = 1; n < 8; n++)
        for (int byte = 0; byte < 256; byte++)
            tables[n][byte] = tables[n - 1][byte] >> 8 ^ tables[0][tables[n - 1][byte] & 0xff];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = 1u << bit;
        for (int i = 0; i < LANE; i++) crc = crc >> 8 ^ tables[0][crc & 0xff];
        for (int byte = 0; byte < 256; byte++)
            if (byte >> bit % 8 & 1) lane_tables[bit / 8][byte] ^= crc;
    }
}

/* Eight bytes a step: "slicing", as in Kounavis and Berry, Novel Table Lookup-Based Algorithms for CRC Generation. */
uint32_t crc32c_by_tables(const uint8_t *bytes, size_t length) {
    pthread_once(&tables_made, make_tables);
    uint32_t crc = ~0u;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        word ^= crc;
        crc = 0;
        for (int n = 0; n < 8; n++) crc ^= tables[7 - n][word >> 8 * n & 0xff];
    }
    for (; length > 0; bytes++, length--) crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)

/* Clang counts the instruction as a feature of its own; GCC has it with SSE 4.2. */
#if defined(__clang__)
#define WITH_INSTRUCTION __attribute__((target("sse4.2,crc32")))
#else
#define WITH_INSTRUCTION __attribute__((target("sse4.2")))
#endif

static uint32_t a_lane_later(uint32_t crc) {
    return lane_tables[0][crc & 0xff] ^ lane_tables[1][crc >> 8 & 0xff] ^ lane_tables[2][crc >> 16 & 0xff] ^
           lane_tables[3][crc >> 24];
}

static uint64_t word_at(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    return word;
}

/* Three lanes side by side, as in Gopal and others, Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction. */
WITH_INSTRUCTION static uint32_t crc32c_by_instruction(const uint8_t *bytes, size_t length) {
    pthread_once(&tables_made, make_tables);
    uint64_t crc = ~0u;
    for (; length >= 3 * LANE; bytes += 3 * LANE, length -= 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (const uint8_t *at = bytes; at < bytes + LANE; at += 8) {
            crc = __builtin_ia32_crc32di(crc, word_at(at));
            second = __builtin_ia32_crc32di(second, word_at(at + LANE));
            third = __builtin_ia32_crc32di(third, word_at(at + 2 * LANE));
        }
        crc = a_lane_later(a_lane_later((uint32_t)crc) ^ (uint32_t)second) ^ (uint32_t)third;
    }
    for (; length >= 8; bytes += 8, length -= 8) {
        crc = __builtin_ia32_crc32di(crc, word_at(bytes));
    }
    uint32_t rest = (uint32_t)crc;
    for (; length > 0; bytes++, length--) rest = __builtin_ia32_crc32qi(rest, *bytes);
    return ~rest;
}

uint32_t crc32c(const uint8_t *bytes, size_t length) {
    return __builtin_cpu_supports("sse4.2") ? crc32c_by_instruction(bytes, length) : crc32c_by_tables(bytes, length);
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

uint32_t crc32c(const uint8_t *bytes, size_t length) {
    uint32_t crc = ~0u;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        crc = __crc32cd(crc, word);
    }
    for (; length > 0; bytes++, length--) crc = __crc32cb(crc, *bytes);
    return ~crc;
}

#else

uint32_t crc32c(const uint8_t *bytes, size_t length) { return crc32c_by_tables(bytes, length); }

#endif
