/*
 * Reads fetched record batches (message format 2, KIP-98) into Arrow, exactly a range of offsets of one partition. What
 * readers of committed records must not see is left out: control records, and the records of aborted transactions.
 */
#include "crc32c.h"
#include "export.h"
#include "format.h"
#include "producer_set.h"
#include "record_batch.h"
#include "varint.h"

#include <string.h>

/* What a look at fetched bytes says. */
enum { PLAIN, PACKED, CORRUPT, OLD_FORMAT, NO_MEMORY };
enum { ABORT_MARK = 0 };

/* Mirrored by a ctypes structure in _decoder.py. */
struct scanned {
    int64_t bytes; /* of whole batches: a fetch ends in a part of one */
    int64_t next;  /* the offset behind them; -1: there is none */
};

/* Mirrored by a ctypes structure in _decoder.py. */
struct decoding {
    const uint8_t *data; /* whole batches, none of them packed */
    int64_t length;
    const int64_t *aborted_producers; /* of aborted transactions, in the order of their first offsets */
    const int64_t *aborted_firsts;
    int32_t aborted_count;
    int32_t with_headers;
    int64_t end; /* exclusive */
    int64_t max_bytes;
    int32_t max_rows;
    int32_t more; /* out: whether there is more of the range in data */
    int64_t next; /* in: the first offset that is wanted; out: the one to go on with */
};

struct pass {
    const struct decoding *of;
    int64_t stop;               /* the first offset that is not wanted any more */
    struct batch_size size;     /* what was counted */
    int64_t bytes;              /* of it */
    struct record_batch *batch; /* NULL: only count */
    struct producer_set aborted; /* those with an aborted transaction that has begun, and not ended */
    int32_t begun;               /* transactions that may have begun */
    int64_t next;
    int more;
};

/*
 * Looks at every whole batch: whether it is what was sent, whether any is packed, and whether its offsets can be: the
 * checksum does not cover the first one.
 */
EXPORT int penstock_scan(const uint8_t *data, int64_t length, struct scanned *scanned) {
    int packed = 0;
    *scanned = (struct scanned){0, -1};
    while (scanned->bytes + MAGIC_AT < length) {
        const uint8_t *batch = data + scanned->bytes;
        int64_t size = (int64_t)get32(batch + LENGTH_AT) + LENGTH_AT + 4;
        if (batch[MAGIC_AT] != 2) return OLD_FORMAT;
        if (scanned->bytes + HEADER_BYTES > length) break;
        if (size < HEADER_BYTES) return CORRUPT;
        if (scanned->bytes + size > length) break;
        if (crc32c(batch + ATTRIBUTES_AT, (size_t)(size - ATTRIBUTES_AT)) != (uint32_t)get32(batch + CRC_AT))
            return CORRUPT;
        if (get16(batch + ATTRIBUTES_AT) & PACKED_BITS) packed = 1;
        int64_t first = get64(batch + OFFSET_AT), last = get32(batch + LAST_OFFSET_AT);
        if (first < 0 || first < scanned->next || last < 0 || first > INT64_MAX - last - 1) return CORRUPT;
        scanned->bytes += size;
        scanned->next = first + last + 1;
    }
    return packed ? PACKED : PLAIN;
}

/* NULL: it goes on behind end, or behind the ten bytes that a number has at most. */
static const uint8_t *number_before(const uint8_t *at, const uint8_t *end, int64_t *number) {
    const uint8_t *last = at;
    while (last < end && last < at + 9 && *last & 0x80) last++;
    return last < end && !(*last & 0x80) ? varint_get(at, number) : NULL;
}

/* Bytes with their length before them; -1: a null. */
static const uint8_t *bytes_before(const uint8_t *at, const uint8_t *end, const void **start, size_t *length) {
    int64_t count;
    at = number_before(at, end, &count);
    if (!at || count < -1 || count > end - at) return NULL;
    *start = count < 0 ? NULL : at;
    *length = count < 0 ? 0 : (size_t)count;
    return count < 0 ? at : at + count;
}

static const uint8_t *read_headers(struct pass *pass, const uint8_t *at, const uint8_t *end) {
    int64_t count;
    at = number_before(at, end, &count);
    if (!at || count < 0) return NULL;
    for (int64_t i = 0; i < count; i++) {
        const void *key, *value;
        size_t key_length, value_length;
        at = bytes_before(at, end, &key, &key_length);
        if (at) at = bytes_before(at, end, &value, &value_length);
        if (!at || !key) return NULL;
        if (!pass->of->with_headers) continue;
        if (pass->batch) {
            record_batch_add_header(pass->batch, key, key_length, value, value_length);
        } else {
            pass->size.headers++;
            pass->size.header_key_bytes += (int64_t)key_length;
            pass->size.header_value_bytes += (int64_t)value_length;
            pass->bytes += (int64_t)(key_length + value_length);
        }
    }
    return at;
}

static void take(struct pass *pass, const struct record *record) {
    if (pass->batch) {
        record_batch_append(pass->batch, record);
    } else {
        pass->size.rows++;
        pass->size.key_bytes += (int64_t)record->key_length;
        pass->size.value_bytes += (int64_t)record->value_length;
        pass->bytes += (int64_t)(record->key_length + record->value_length);
    }
}

/* The records of one batch, up to the first that is not wanted. 0 if they are not what they should be. */
static int read_records(struct pass *pass, const uint8_t *batch, const uint8_t *end) {
    int64_t first_offset = get64(batch + OFFSET_AT), first_time = get64(batch + FIRST_TIME_AT);
    int appended = get16(batch + ATTRIBUTES_AT) & LOG_APPEND_TIME;
    int64_t append_time = get64(batch + LAST_TIME_AT);
    int64_t last_offset = first_offset + get32(batch + LAST_OFFSET_AT), lowest = first_offset;
    int32_t count = get32(batch + COUNT_AT);
    const uint8_t *at = batch + HEADER_BYTES;
    if (count < 0) return 0;
    for (int32_t i = 0; i < count; i++) {
        int64_t size, time, offset;
        at = number_before(at, end, &size);
        if (!at || size < 1 || size > end - at) return 0;
        const uint8_t *record_end = at + size, *part = at + 1;
        at = record_end;
        part = number_before(part, record_end, &time);
        if (part) part = number_before(part, record_end, &offset);
        if (!part || offset < 0 || offset > last_offset - first_offset) return 0;
        offset += first_offset;
        /* Offsets ascend: what is counted in one pass is what is copied in the next. */
        if (offset < lowest) return 0;
        lowest = offset + 1;
        if (offset < pass->of->next) continue;
        if (offset >= pass->stop) {
            pass->next = offset;
            return 1;
        }
        if (!pass->batch && (pass->size.rows >= pass->of->max_rows || pass->bytes >= pass->of->max_bytes)) {
            pass->stop = pass->next = offset;
            pass->more = 1;
            return 1;
        }
        struct record record = {.offset = offset, .timestamp = appended ? append_time : plus(first_time, time)};
        record.timestamp_type = record.timestamp < 0 ? -1 : appended ? 1 : 0;
        part = bytes_before(part, record_end, &record.key, &record.key_length);
        if (part) part = bytes_before(part, record_end, &record.value, &record.value_length);
        if (part) part = read_headers(pass, part, record_end);
        if (part != record_end) return 0;
        take(pass, &record);
    }
    pass->next = last_offset + 1;
    return at == end;
}

/* Whether the records of this batch belong to an aborted transaction, whose end it may be. */
static int is_aborted(struct pass *pass, const uint8_t *batch, const uint8_t *end, int64_t last_offset) {
    const struct decoding *of = pass->of;
    int attributes = get16(batch + ATTRIBUTES_AT);
    int64_t producer = get64(batch + PRODUCER_AT);
    while (pass->begun < of->aborted_count && of->aborted_firsts[pass->begun] <= last_offset)
        producer_set_add(&pass->aborted, of->aborted_producers[pass->begun++]);
    if (!(attributes & TRANSACTIONAL)) return 0;
    int ends = 0;
    if (attributes & CONTROL) {
        /* One record, with a key of a version and a type. */
        int64_t ignored;
        const void *key = NULL;
        size_t key_length = 0;
        const uint8_t *at = number_before(batch + HEADER_BYTES, end, &ignored);
        if (at && at < end) at = number_before(at + 1, end, &ignored);
        if (at) at = number_before(at, end, &ignored);
        if (at) at = bytes_before(at, end, &key, &key_length);
        ends = at && key_length >= 4 && get16((const uint8_t *)key + 2) == ABORT_MARK;
    }
    int found = producer_set_holds(&pass->aborted, producer);
    if (found && ends) producer_set_remove(&pass->aborted, producer);
    return found;
}

static int run(struct pass *pass) {
    const struct decoding *of = pass->of;
    const uint8_t *batch = of->data, *data_end = of->data + of->length;
    pass->next = of->next;
    pass->begun = 0;
    producer_set_clear(&pass->aborted);
    while (batch < data_end && pass->next < pass->stop && !pass->more) {
        const uint8_t *end = batch + get32(batch + LENGTH_AT) + LENGTH_AT + 4;
        int64_t first = get64(batch + OFFSET_AT), last = first + get32(batch + LAST_OFFSET_AT);
        int left_out = is_aborted(pass, batch, end, last) || get16(batch + ATTRIBUTES_AT) & CONTROL;
        if (last >= of->next) {
            if (left_out || first >= pass->stop)
                pass->next = first >= pass->stop ? first : last + 1;
            else if (!read_records(pass, batch, end))
                return CORRUPT;
        }
        batch = end;
    }
    return PLAIN;
}

/*
 * The next records of the range in data, at most max_rows of them, and none more once they have max_bytes together, as a
 * batch (released, if there are none). Call again while there are more; next tells whether the range is at its end.
 */
EXPORT int penstock_decode(struct decoding *decoding, struct ArrowArray *records) {
    memset(records, 0, sizeof *records);
    decoding->more = 0;
    struct pass pass = {.of = decoding, .stop = decoding->end};
    if (!producer_set_open(&pass.aborted, decoding->aborted_count)) return NO_MEMORY;
    int status = run(&pass);
    int64_t next = pass.next;
    if (status == PLAIN && !record_batch_can_hold(&pass.size)) status = CORRUPT;
    if (status == PLAIN && pass.size.rows > 0) {
        decoding->more = pass.more;
        pass.batch = record_batch_new(&pass.size, decoding->with_headers);
        pass.more = 0;
        status = pass.batch ? run(&pass) : NO_MEMORY;
        if (pass.batch) record_batch_finish(pass.batch, records);
    }
    decoding->next = next;
    producer_set_close(&pass.aborted);
    return status;
}
