/* Pages of results: the regions of an input are within its bytes, and are walked; then pieces of it are hashed. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum { REGIONS = 8 };

static volatile uint64_t sink;

int64_t penstock_walk(const uint8_t *body, int64_t regions, const int64_t *from, const int64_t *to,
                      const int64_t *counts, int64_t *starts, int64_t *lengths);
void penstock_tokens(const uint8_t *data, int64_t n, const int32_t *offsets, int64_t *tokens);

void repair(uint8_t *data, size_t length) {
    (void)data;
    (void)length;
}

void try_input(const uint8_t *data, size_t length) {
    int64_t from[REGIONS], to[REGIONS], counts[REGIONS], cells = 0, regions = 1 + dice(REGIONS), at = 0;
    for (int64_t i = 0; i < regions; i++) {
        from[i] = at + dice((uint32_t)((int64_t)length - at) + 1) * (regions > 1);
        to[i] = regions > 1 ? from[i] + dice((uint32_t)((int64_t)length - from[i]) + 1) : (int64_t)length;
        at = to[i];
        counts[i] = dice(dice(4) ? 8 : 2000);
        cells += counts[i];
    }
    int64_t *starts = malloc(sizeof *starts * (size_t)cells), *lengths = malloc(sizeof *lengths * (size_t)cells);
    if (penstock_walk(data, regions, from, to, counts, starts, lengths) < 0) {
        uint64_t sum = 0;
        for (int64_t cell = 0; cell < cells; cell++) {
            if (lengths[cell] < -1 || starts[cell] < 0 || starts[cell] > (int64_t)length) abort();
            for (int64_t i = 0; i < lengths[cell]; i++) sum += data[starts[cell] + i];
        }
        sink = sum;
    }
    free(starts);
    free(lengths);
    int32_t offsets[REGIONS + 1] = {0};
    for (int i = 1; i <= REGIONS; i++)
        offsets[i] = offsets[i - 1] + (int32_t)dice((uint32_t)length - (uint32_t)offsets[i - 1] + 1);
    int64_t tokens[REGIONS];
    penstock_tokens(data, REGIONS, offsets, tokens);
}
