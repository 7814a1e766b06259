/* Finds the cells of a result page, and hashes partition keys. Everything else is done by NumPy and Arrow. */
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *penstock_source_hash(void) { return PENSTOCK_SOURCE_HASH; }

static inline int32_t read_int(const uint8_t *at) {
    return (int32_t)(((uint32_t)at[0] << 24) | ((uint32_t)at[1] << 16) | ((uint32_t)at[2] << 8) | at[3]);
}

/* Region i of body, from from[i] to below to[i], holds counts[i] cells (each: a length, then that many bytes; a negative
 * length is null). Writes where each begins and its length. A region that ends early has nulls for the rest. Returns -1,
 * or the number of the first region that is damaged. */
EXPORT int64_t penstock_walk(const uint8_t *body, int64_t regions, const int64_t *from, const int64_t *to,
                             const int64_t *counts, int64_t *starts, int64_t *lengths) {
    int64_t cell = 0;
    for (int64_t region = 0; region < regions; region++) {
        int64_t at = from[region], end = to[region];
        for (int64_t n = counts[region]; n > 0; n--, cell++) {
            int32_t length = -1;
            if (at < end) {
                if (end - at < 4) return region;
                length = read_int(body + at);
                at += 4;
                if (length > end - at) return region;
            }
            starts[cell] = at;
            lengths[cell] = length < 0 ? -1 : length;
            if (length > 0) at += length;
        }
    }
    return -1;
}

static inline uint64_t rotl(uint64_t x, int r) { return (x << r) | (x >> (64 - r)); }

static inline uint64_t fmix(uint64_t k) {
    k ^= k >> 33;
    k *= UINT64_C(0xff51afd7ed558ccd);
    k ^= k >> 33;
    k *= UINT64_C(0xc4ceb9fe1a85ec53);
    return k ^ (k >> 33);
}

/* The first half of MurmurHash3 x64 128, with the bytes of the tail signed, as Cassandra has it. */
static int64_t murmur3(const uint8_t *data, int64_t size) {
    const uint64_t c1 = UINT64_C(0x87c37b91114253d5), c2 = UINT64_C(0x4cf5ad432745937f);
    uint64_t h1 = 0, h2 = 0, k1, k2;
    int64_t blocks = size / 16;
    for (int64_t block = 0; block < blocks; block++) {
        memcpy(&k1, data + block * 16, 8);
        memcpy(&k2, data + block * 16 + 8, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        k1 = __builtin_bswap64(k1);
        k2 = __builtin_bswap64(k2);
#endif
        h1 ^= rotl(k1 * c1, 31) * c2;
        h1 = (rotl(h1, 27) + h2) * 5 + 0x52dce729;
        h2 ^= rotl(k2 * c2, 33) * c1;
        h2 = (rotl(h2, 31) + h1) * 5 + 0x38495ab5;
    }
    const int8_t *tail = (const int8_t *)data + blocks * 16;
    int rest = (int)(size & 15);
    k1 = k2 = 0;
    for (int i = rest - 1; i >= 8; i--) k2 ^= (uint64_t)(int64_t)tail[i] << ((i - 8) * 8);
    if (rest > 8) h2 ^= rotl(k2 * c2, 33) * c1;
    for (int i = (rest < 8 ? rest : 8) - 1; i >= 0; i--) k1 ^= (uint64_t)(int64_t)tail[i] << (i * 8);
    if (rest > 0) h1 ^= rotl(k1 * c1, 31) * c2;
    h1 ^= (uint64_t)size;
    h2 ^= (uint64_t)size;
    h1 += h2;
    h2 += h1;
    return (int64_t)(fmix(h1) + fmix(h2));
}

/* The token of each of n keys: key i is data[offsets[i] .. offsets[i + 1]). */
EXPORT void penstock_tokens(const uint8_t *data, int64_t n, const int32_t *offsets, int64_t *tokens) {
    for (int64_t i = 0; i < n; i++) {
        int64_t token = murmur3(data + offsets[i], offsets[i + 1] - offsets[i]);
        tokens[i] = token == INT64_MIN ? INT64_MAX : token;
    }
}
