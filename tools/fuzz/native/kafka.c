/* Fetched record batches, as the consumer takes them: all are looked at, then read in several steps. */
#include "driver.h"

#include "arrow.h"
#include "crc32c.h"
#include "format.h"

#include <stdlib.h>

struct scanned {
    int64_t bytes, next;
};

struct decoding {
    const uint8_t *data;
    int64_t length;
    const int64_t *aborted_producers, *aborted_firsts;
    int32_t aborted_count, with_headers;
    int64_t end, max_bytes;
    int32_t max_rows, more;
    int64_t next;
};

int penstock_scan(const uint8_t *data, int64_t length, struct scanned *scanned);
int penstock_decode(struct decoding *decoding, struct ArrowArray *records);

/* Lengths and checksums that fit, of every batch: otherwise nothing but them would be tried. */
void repair(uint8_t *data, size_t length) {
    for (size_t at = 0; at + HEADER_BYTES <= length;) {
        uint8_t *batch = data + at;
        int64_t size = (int64_t)get32(batch + LENGTH_AT) + LENGTH_AT + 4;
        if (size < HEADER_BYTES || size > (int64_t)(length - at)) size = (int64_t)(length - at);
        put32(batch + LENGTH_AT, (uint32_t)(size - LENGTH_AT - 4));
        batch[MAGIC_AT] = 2;
        put32(batch + CRC_AT, crc32c(batch + ATTRIBUTES_AT, (size_t)(size - ATTRIBUTES_AT)));
        at += (size_t)size;
    }
}

static volatile uint64_t sink;

static void check(int holds) {
    if (!holds) abort();
}

/* Every byte that a reader of the column looks at. */
static void read_binary(const struct ArrowArray *array) {
    const int32_t *offsets = array->buffers[1];
    const uint8_t *bytes = array->buffers[2];
    for (int64_t i = 0; i < array->length; i++) {
        check(offsets[i] >= 0 && offsets[i] <= offsets[i + 1]);
        if (array->buffers[0]) sink += (uint64_t)bit_is_set(array->buffers[0], i);
    }
    for (int32_t i = 0; array->length && i < offsets[array->length]; i++) sink += bytes[i];
}

static void read_records(const struct ArrowArray *records, int with_headers, const struct decoding *of) {
    check(records->n_children == (with_headers ? 6 : 5));
    for (int64_t i = 0; i < records->n_children; i++) check(records->children[i]->length == records->length);
    read_binary(records->children[0]);
    read_binary(records->children[1]);
    const int64_t *offsets = records->children[2]->buffers[1], *times = records->children[3]->buffers[1];
    const int32_t *types = records->children[4]->buffers[1];
    for (int64_t i = 0; i < records->length; i++) {
        check(offsets[i] < of->end && (i == 0 || offsets[i] > offsets[i - 1]));
        sink += (uint64_t)times[i] + (uint64_t)types[i];
    }
    if (!with_headers) return;
    const struct ArrowArray *lists = records->children[5], *items = lists->children[0];
    const int32_t *ends = lists->buffers[1];
    for (int64_t i = 0; i < lists->length; i++) check(ends[i] >= 0 && ends[i] <= ends[i + 1]);
    check(ends[lists->length] == items->length);
    read_binary(items->children[0]);
    read_binary(items->children[1]);
}

void try_input(const uint8_t *data, size_t length) {
    struct scanned scanned;
    if (penstock_scan(data, (int64_t)length, &scanned) != 0 || scanned.bytes == 0) return;
    check(scanned.bytes <= (int64_t)length && scanned.next > 0);
    int64_t producers[] = {5, -1, 7, 5}, firsts[] = {0, 3, 90, 100};
    static const int32_t rows[] = {1, 7, 1000, 16384};
    struct decoding decoding = {.data = data,
                                .length = scanned.bytes,
                                .aborted_producers = producers,
                                .aborted_firsts = firsts,
                                .aborted_count = (int32_t)dice(5),
                                .with_headers = (int32_t)dice(2),
                                .end = dice(4) ? INT64_MAX : dice(200),
                                .max_bytes = dice(2) ? 1 << 20 : 100,
                                .max_rows = rows[dice(4)],
                                .next = dice(3) ? 0 : dice(100)};
    do {
        struct ArrowArray records;
        int64_t before = decoding.next;
        int status = penstock_decode(&decoding, &records);
        if (records.release) {
            check(records.length <= decoding.max_rows);
            if (status == 0) read_records(&records, decoding.with_headers, &decoding);
            records.release(&records);
        }
        if (status != 0) return;
        check(decoding.next >= before && (!decoding.more || decoding.next > before));
    } while (decoding.more);
}
