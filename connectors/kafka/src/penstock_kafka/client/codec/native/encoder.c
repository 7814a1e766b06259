/*
 * Writes rows as Kafka's record batches (message format 2, KIP-98), one open batch for each partition that has records
 * waiting. Knows nothing of brokers: whoever calls it takes the batches and sends them.
 */
#include "columns.h"
#include "crc32c.h"
#include "export.h"
#include "format.h"
#include "murmur2.h"
#include "varint.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUCKETS = 256, FIRST_CAPACITY = 16 << 10 };
/* Records without a key go to one partition for this many bytes, then to the next, as Java's client does. */
enum { STICK_BYTES = 16 << 10 };

/* Why encoding stopped before the last row. */
enum { DONE, BATCH_FULL, ALL_FULL, TOPIC_UNKNOWN, TOPIC_REFUSED, PARTITION_UNKNOWN, RECORD_TOO_LARGE, NO_MEMORY };

struct open_batch {
    uint8_t *data;
    int64_t length; /* 0: nothing in it */
    int64_t capacity;
    int64_t first_time, last_time;
    int64_t largest; /* bytes of the largest record's key and value */
    int32_t records;
};

struct topic {
    struct topic *next;      /* of the same bucket */
    struct topic *next_made; /* of all */
    struct open_batch *batches;
    int32_t number;
    int32_t partitions; /* 0: its records are refused */
    int32_t sticky;
    int64_t stuck_bytes;
    size_t length;
    char name[];
};

struct encoder {
    struct topic *buckets[BUCKETS];
    struct topic *topics;
    struct topic *last; /* records of a topic mostly come one after the other */
    struct topic *taken; /* where to go on looking for open batches */
    int32_t topic_count;
    int64_t batch_bytes, record_bytes, open_bytes;
    int64_t bytes;    /* in open batches */
    int64_t reserved; /* memory of all batches */
    uint32_t random;
};

/* Mirrored by a ctypes structure in _encoder.py. */
struct sealed {
    const uint8_t *data;
    int64_t length;
    int64_t largest;
    int32_t topic;
    int32_t partition;
    int32_t records;
};

/* Mirrored by a ctypes structure in _encoder.py: the row that could not be encoded. */
struct stopped {
    int64_t row;
    int64_t size; /* of its key and value */
    int32_t topic; /* -1: unknown */
    int32_t partition;
};

EXPORT const char *penstock_source_hash(void) { return PENSTOCK_SOURCE_HASH; }

EXPORT uint32_t penstock_crc32c(const uint8_t *bytes, size_t length, int by_tables) {
    return by_tables ? crc32c_by_tables(bytes, length) : crc32c(bytes, length);
}

/* batch_bytes: of a batch, where no single record is larger; record_bytes: of a record; open_bytes: of open batches. */
EXPORT struct encoder *penstock_encoder_open(int64_t batch_bytes, int64_t record_bytes, int64_t open_bytes) {
    struct encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder) return NULL;
    encoder->batch_bytes = batch_bytes;
    encoder->record_bytes = record_bytes;
    encoder->open_bytes = open_bytes;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    encoder->random = (uint32_t)now.tv_nsec;
    return encoder;
}

static uint32_t bucket_of(const uint8_t *name, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ name[i]) * 16777619u;
    return (hash ^ hash >> 16) % BUCKETS;
}

static struct topic *find_topic(struct encoder *encoder, const void *name, size_t length) {
    struct topic *last = encoder->last;
    if (last && last->length == length && memcmp(last->name, name, length) == 0) return last;
    for (struct topic *topic = encoder->buckets[bucket_of(name, length)]; topic; topic = topic->next)
        if (topic->length == length && memcmp(topic->name, name, length) == 0) return encoder->last = topic;
    return NULL;
}

/*
 * Says how many partitions a topic has, for the first time or anew; 0: its records are refused. Partitions never become
 * fewer. Returns the topic's number, counted from 0; -1 if there is no memory.
 */
EXPORT int32_t penstock_encoder_set_topic(struct encoder *encoder, const char *name, size_t length, int32_t partitions) {
    struct topic *topic = find_topic(encoder, name, length);
    if (!topic) {
        topic = calloc(1, sizeof *topic + length);
        if (!topic) return -1;
        memcpy(topic->name, name, length);
        topic->length = length;
        topic->number = encoder->topic_count++;
        uint32_t bucket = bucket_of((const uint8_t *)name, length);
        topic->next = encoder->buckets[bucket];
        encoder->buckets[bucket] = topic;
        topic->next_made = encoder->topics;
        encoder->topics = topic;
        encoder->random = encoder->random * 1664525u + 1013904223u;
        topic->sticky = (int32_t)(encoder->random >> 8);
    }
    if (partitions > topic->partitions) {
        struct open_batch *batches = realloc(topic->batches, (size_t)partitions * sizeof *batches);
        if (!batches) return -1;
        memset(batches + topic->partitions, 0, (size_t)(partitions - topic->partitions) * sizeof *batches);
        topic->batches = batches;
        topic->partitions = partitions;
    }
    return topic->number;
}

static int32_t choose_partition(struct topic *topic, struct slice key) {
    if (key.start) return (int32_t)(murmur2(key.start, key.length) & 0x7fffffff) % topic->partitions;
    return topic->sticky % topic->partitions;
}

static int64_t headers_size(const struct delivery *delivery, int64_t start, int64_t end) {
    int64_t size = varint_size(end - start);
    for (int64_t i = start; i < end; i++) {
        struct slice key = column_bytes(&delivery->header_key, i), value = column_bytes(&delivery->header_value, i);
        size += varint_size((int64_t)key.length) + (int64_t)key.length;
        size += value.start ? varint_size((int64_t)value.length) + (int64_t)value.length : 1;
    }
    return size;
}

static uint8_t *put_bytes(uint8_t *at, struct slice bytes) {
    if (!bytes.start) return varint_put(at, -1);
    at = varint_put(at, (int64_t)bytes.length);
    memcpy(at, bytes.start, bytes.length);
    return at + bytes.length;
}

static uint8_t *put_headers(uint8_t *at, const struct delivery *delivery, int64_t start, int64_t end) {
    at = varint_put(at, end - start);
    for (int64_t i = start; i < end; i++) {
        struct slice key = column_bytes(&delivery->header_key, i);
        if (!key.start) key = (struct slice){"", 0}; /* a header's key is never null */
        at = put_bytes(at, key);
        at = put_bytes(at, column_bytes(&delivery->header_value, i));
    }
    return at;
}

/* Room for size more bytes. */
static int reserve(struct encoder *encoder, struct open_batch *batch, int64_t size) {
    int64_t needed = batch->length + size, capacity = batch->capacity ? batch->capacity : FIRST_CAPACITY;
    while (capacity < needed) capacity *= 2;
    if (capacity == batch->capacity) return 1;
    uint8_t *data = realloc(batch->data, (size_t)capacity);
    if (!data) return 0;
    encoder->reserved += capacity - batch->capacity;
    batch->data = data;
    batch->capacity = capacity;
    return 1;
}

static int64_t wall_clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Adds row to its batch, or says why not, in why. */
static int encode_row(struct encoder *encoder, const struct delivery *delivery, int64_t row, int64_t now,
                      struct stopped *why) {
    struct slice name = column_bytes(&delivery->topic, row);
    struct slice key = column_bytes(&delivery->key, row), value = column_bytes(&delivery->value, row);
    struct topic *topic = find_topic(encoder, name.start, name.length);
    int32_t partition = column_int32(&delivery->partition, row, -1);
    *why = (struct stopped){row, (int64_t)(key.length + value.length), topic ? topic->number : -1, partition};
    if (!topic) return TOPIC_UNKNOWN;
    if (topic->partitions == 0) return TOPIC_REFUSED;
    int chosen = partition == -1;
    if (chosen) partition = why->partition = choose_partition(topic, key);
    if (partition < 0 || partition >= topic->partitions) return PARTITION_UNKNOWN;

    int64_t first_header = 0, last_header = 0;
    if (!column_is_null(&delivery->headers, row)) {
        first_header = column_offset(&delivery->headers, row);
        last_header = column_offset(&delivery->headers, row + 1);
    }
    struct open_batch *batch = &topic->batches[partition];
    int64_t time = column_int64(&delivery->timestamp, row, 0);
    if (time == 0) time = now;
    int64_t time_delta = batch->records ? minus(time, batch->first_time) : 0;
    int64_t size = 1 + varint_size(time_delta) + varint_size(batch->records);
    size += key.start ? varint_size((int64_t)key.length) + (int64_t)key.length : 1;
    size += value.start ? varint_size((int64_t)value.length) + (int64_t)value.length : 1;
    int64_t headers = headers_size(delivery, first_header, last_header);
    size += headers;
    int64_t total = size + varint_size(size);

    if (why->size + headers > encoder->record_bytes) return RECORD_TOO_LARGE;
    if (batch->records && batch->length + total > encoder->batch_bytes) return BATCH_FULL;
    if (encoder->bytes > 0 && encoder->bytes + total > encoder->open_bytes) return ALL_FULL;
    int64_t header = batch->records ? 0 : HEADER_BYTES;
    if (!reserve(encoder, batch, header + total)) return NO_MEMORY;
    if (header) {
        batch->length = HEADER_BYTES;
        batch->first_time = batch->last_time = time;
        batch->largest = 0;
    }
    uint8_t *at = varint_put(batch->data + batch->length, size);
    *at++ = 0; /* attributes */
    at = varint_put(at, time_delta);
    at = varint_put(at, batch->records);
    at = put_bytes(at, key);
    at = put_bytes(at, value);
    put_headers(at, delivery, first_header, last_header);
    batch->records++;
    batch->length += total;
    encoder->bytes += header + total;
    if (time > batch->last_time) batch->last_time = time;
    if (why->size > batch->largest) batch->largest = why->size;
    if (chosen && !key.start && (topic->stuck_bytes += total) > STICK_BYTES) {
        topic->stuck_bytes = 0;
        topic->sticky = (int32_t)(((uint32_t)topic->sticky + 1) & 0x7fffffff);
    }
    return DONE;
}

/* Encodes the rows from first on. Stops at one for which a batch has to be taken first, or that has to be decided on. */
EXPORT int penstock_encoder_encode(struct encoder *encoder, const struct ArrowSchema *schema,
                                   const struct ArrowArray *rows, int64_t first, struct stopped *stopped) {
    struct delivery delivery;
    delivery_open(&delivery, schema, rows);
    int64_t now = wall_clock_ms();
    for (int64_t row = first; row < delivery.rows; row++) {
        int why = encode_row(encoder, &delivery, row, now, stopped);
        if (why != DONE) return why;
    }
    return DONE;
}

static void seal(struct encoder *encoder, struct topic *topic, int32_t partition, struct sealed *sealed) {
    struct open_batch *batch = &topic->batches[partition];
    uint8_t *data = batch->data;
    memset(data, 0, HEADER_BYTES);
    put32(data + LENGTH_AT, (uint32_t)(batch->length - LENGTH_AT - 4));
    put32(data + LENGTH_AT + 4, (uint32_t)-1); /* the leader's epoch: not known to producers */
    data[MAGIC_AT] = 2;
    put32(data + LAST_OFFSET_AT, (uint32_t)(batch->records - 1));
    put64(data + FIRST_TIME_AT, (uint64_t)batch->first_time);
    put64(data + LAST_TIME_AT, (uint64_t)batch->last_time);
    put32(data + COUNT_AT, (uint32_t)batch->records);
    *sealed = (struct sealed){data, batch->length, batch->largest, topic->number, partition, batch->records};
    encoder->bytes -= batch->length;
    batch->length = 0;
    batch->records = 0;
}

/*
 * Ends the batch of a partition that has one, or of any partition if topic is -1, and says where it is: valid until the
 * next call. Returns 0 if there is none. It still has to be stamped.
 */
EXPORT int penstock_encoder_take(struct encoder *encoder, int32_t number, int32_t partition, struct sealed *sealed) {
    struct topic *topic = encoder->taken ? encoder->taken : encoder->topics;
    for (int32_t seen = 0; seen <= encoder->topic_count && encoder->bytes > 0; seen++) {
        if (number < 0 || topic->number == number) {
            for (int32_t one = 0; one < topic->partitions; one++) {
                if (!topic->batches[one].records || (number >= 0 && one != partition)) continue;
                encoder->taken = topic;
                seal(encoder, topic, one, sealed);
                return 1;
            }
        }
        topic = topic->next_made ? topic->next_made : encoder->topics;
    }
    return 0;
}

/* Gives back the memory of batches that are not open if it is more than limit bytes. */
EXPORT void penstock_encoder_trim(struct encoder *encoder, int64_t limit) {
    for (struct topic *topic = encoder->topics; topic && encoder->reserved > limit; topic = topic->next_made) {
        for (int32_t one = 0; one < topic->partitions; one++) {
            struct open_batch *batch = &topic->batches[one];
            if (batch->records) continue;
            encoder->reserved -= batch->capacity;
            free(batch->data);
            memset(batch, 0, sizeof *batch);
        }
    }
}

/* Bytes in open batches. */
EXPORT int64_t penstock_encoder_bytes(const struct encoder *encoder) { return encoder->bytes; }

/*
 * Writes into a batch of length bytes who sends it and how its records are packed, and with what all of that its
 * checksum.
 */
EXPORT void penstock_batch_stamp(uint8_t *batch, int64_t length, int attributes, int64_t producer, int epoch,
                                 int32_t sequence) {
    put32(batch + LENGTH_AT, (uint32_t)(length - LENGTH_AT - 4));
    put16(batch + ATTRIBUTES_AT, (uint16_t)attributes);
    put64(batch + PRODUCER_AT, (uint64_t)producer);
    put16(batch + EPOCH_AT, (uint16_t)epoch);
    put32(batch + SEQUENCE_AT, (uint32_t)sequence);
    put32(batch + CRC_AT, crc32c(batch + ATTRIBUTES_AT, (size_t)(length - ATTRIBUTES_AT)));
}

/*
 * Copies count records, from number first on, of a batch that was encoded here into one of their own, for which length
 * bytes are enough. Returns how long it is, and in largest the bytes of its largest record. It still has to be stamped.
 */
EXPORT int64_t penstock_batch_part(const uint8_t *batch, int32_t first, int32_t count, uint8_t *into, int64_t *largest) {
    int64_t first_time = get64(batch + FIRST_TIME_AT), last_time = INT64_MIN;
    const uint8_t *at = batch + HEADER_BYTES;
    uint8_t *to = into + HEADER_BYTES;
    *largest = 0;
    for (int32_t i = 0; i < first + count; i++) {
        int64_t size, time, offset, key, value;
        const uint8_t *start = varint_get(at, &size);
        at = start + size;
        if (i < first) continue;
        const uint8_t *times_end = varint_get(start + 1, &time), *rest = varint_get(times_end, &offset);
        int64_t front = times_end - start, back = at - rest;
        to = varint_put(to, front + varint_size(i - first) + back);
        memcpy(to, start, (size_t)front);
        to = varint_put(to + front, i - first);
        memcpy(to, rest, (size_t)back);
        to += back;
        if (plus(first_time, time) > last_time) last_time = plus(first_time, time);
        rest = varint_get(rest, &key);
        varint_get(rest + (key > 0 ? key : 0), &value);
        int64_t bytes = (key > 0 ? key : 0) + (value > 0 ? value : 0);
        if (bytes > *largest) *largest = bytes;
    }
    memcpy(into, batch, HEADER_BYTES);
    put32(into + LAST_OFFSET_AT, (uint32_t)(count - 1));
    put64(into + LAST_TIME_AT, (uint64_t)last_time);
    put32(into + COUNT_AT, (uint32_t)count);
    return to - into;
}

/* What a batch may have from now on. */
EXPORT void penstock_encoder_limit(struct encoder *encoder, int64_t batch_bytes) { encoder->batch_bytes = batch_bytes; }

EXPORT void penstock_encoder_close(struct encoder *encoder) {
    for (struct topic *topic = encoder->topics, *next; topic; topic = next) {
        next = topic->next_made;
        for (int32_t one = 0; one < topic->partitions; one++) free(topic->batches[one].data);
        free(topic->batches);
        free(topic);
    }
    free(encoder);
}
