#include "common.h"
#include "record_batch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * How many messages are taken from librdkafka's queue at once: what is taken is no longer counted against its limit,
 * so it is little; a batch is made of many takes.
 */
enum { TAKE = 1024, WAIT_SLICE_MS = 100 };

/* Events that are kept until they are told, in this order: of connections the last one, of others the first. */
enum { OTHER, CONNECTION, ALL_DOWN, EVENTS };

struct range {
    char *topic;
    rd_kafka_topic_t *handle; /* learned from the first message: later ones are compared by pointer */
    int32_t partition;
    int64_t start;
    int64_t end;
    int64_t next;
    int finished;
    int newly_finished;
    struct batch_size size; /* of the batch being made */
    struct record_batch *batch;
};

/* Mirrored by a ctypes structure in _consumer.py. */
struct fetched {
    int32_t range;
    int32_t finished;
    struct ArrowArray records; /* released (release is NULL) if there are none */
};

struct consumer {
    rd_kafka_t *client;
    rd_kafka_queue_t *queue;
    struct range *ranges;
    int range_count;
    int with_headers;
    rd_kafka_message_t *taken[TAKE];
    ssize_t taken_count;
    ssize_t taken_next;
    rd_kafka_message_t **picked;
    struct range **owners;
    int picked_count;
    int picked_capacity;
    struct range **touched; /* ranges with something to hand over, in order of first touch */
    int touched_count;
    struct range *last; /* where the last message belonged: they come in runs */
    struct fetched *results;
    int result_count;
    struct problem message_problem; /* seen among messages, told once what came before it is handed over */
    struct problem events[EVENTS];  /* told by librdkafka's error callback, which runs inside of our polling */
    atomic_int woken;
};

static void on_error(rd_kafka_t *client, int code, const char *reason, void *opaque) {
    struct consumer *consumer = opaque;
    char text[512];
    int fatal = code == RD_FATAL;
    if (fatal) code = rd.fatal_error(client, text, sizeof text), reason = text;
    int kind = code == RD_ALL_BROKERS_DOWN ? ALL_DOWN : code == RD_TRANSPORT || code == RD_RESOLVE ? CONNECTION : OTHER;
    struct problem *event = &consumer->events[kind];
    if (kind == OTHER && event->code) return;
    problem_set(event, code, reason);
    event->fatal = fatal;
}

EXPORT struct consumer *penstock_consumer_open(const char *const *names, const char *const *values, int count,
                                               struct problem *problem) {
    rd_kafka_conf_t *conf = configure(names, values, count, problem);
    if (!conf) return NULL;
    struct consumer *consumer = calloc(1, sizeof *consumer);
    rd.conf_set_opaque(conf, consumer);
    rd.conf_set_error_cb(conf, on_error);
    char text[512];
    consumer->client = rd.new(RD_CONSUMER, conf, text, sizeof text);
    if (!consumer->client) {
        problem_set(problem, RD_INVALID_ARGUMENT, text);
        rd.conf_destroy(conf);
        free(consumer);
        return NULL;
    }
    rd.poll_set_consumer(consumer->client);
    consumer->queue = rd.queue_get_consumer(consumer->client);
    return consumer;
}

static void drop_ranges(struct consumer *consumer) {
    while (consumer->taken_next < consumer->taken_count)
        rd.message_destroy(consumer->taken[consumer->taken_next++]);
    for (int i = 0; i < consumer->range_count; i++) free(consumer->ranges[i].topic);
    free(consumer->ranges);
    free(consumer->touched);
    consumer->ranges = NULL;
    consumer->touched = NULL;
    consumer->last = NULL;
    consumer->range_count = consumer->touched_count = 0;
    memset(&consumer->message_problem, 0, sizeof consumer->message_problem);
}

static void drop_results(struct consumer *consumer) {
    for (int i = 0; i < consumer->result_count; i++) {
        struct ArrowArray *records = &consumer->results[i].records;
        if (records->release) records->release(records);
    }
    free(consumer->results);
    consumer->results = NULL;
    consumer->result_count = 0;
}

/* Starts reading count ranges, of which none is empty and no two are of one partition. 0, or -1 and the problem. */
EXPORT int penstock_consumer_assign(struct consumer *consumer, const char *const *topics, const int32_t *partitions,
                                    const int64_t *starts, const int64_t *ends, int count, int with_headers,
                                    struct problem *problem) {
    drop_results(consumer);
    drop_ranges(consumer);
    consumer->with_headers = with_headers;
    consumer->ranges = calloc((size_t)count + 1, sizeof *consumer->ranges);
    consumer->touched = calloc((size_t)count + 1, sizeof *consumer->touched);
    consumer->range_count = count;
    rd_kafka_topic_partition_list_t *list = rd.topic_partition_list_new(count);
    for (int i = 0; i < count; i++) {
        consumer->ranges[i] = (struct range){.topic = strdup(topics[i]),
                                             .partition = partitions[i],
                                             .start = starts[i],
                                             .next = starts[i],
                                             .end = ends[i]};
        rd.topic_partition_list_add(list, topics[i], partitions[i])->offset = starts[i];
    }
    int code = rd.assign(consumer->client, list);
    rd.topic_partition_list_destroy(list);
    if (code != 0) problem_set(problem, code, NULL);
    return code == 0 ? 0 : -1;
}

static struct range *range_of(struct consumer *consumer, const rd_kafka_message_t *message) {
    struct range *last = consumer->last;
    if (last && last->handle == message->rkt && last->partition == message->partition) return last;
    if (!message->rkt) return NULL;
    for (int i = 0; i < consumer->range_count; i++) {
        struct range *range = &consumer->ranges[i];
        if (range->partition != message->partition) continue;
        if (!range->handle && strcmp(range->topic, rd.topic_name(message->rkt)) == 0) range->handle = message->rkt;
        if (range->handle == message->rkt) return consumer->last = range;
    }
    return NULL;
}

static void touch(struct consumer *consumer, struct range *range) {
    if (range->size.rows == 0 && !range->newly_finished) consumer->touched[consumer->touched_count++] = range;
}

static void finish(struct consumer *consumer, struct range *range) {
    touch(consumer, range);
    range->finished = range->newly_finished = 1;
}

/* Adds message to what is handed over, or drops it. Returns its bytes, or -1 for an error that must be told. */
static int64_t pick(struct consumer *consumer, rd_kafka_message_t *message) {
    struct range *range = range_of(consumer, message);
    int64_t bytes = 0;
    int keep = 0;
    if (message->err == RD_PARTITION_EOF) {
        /* An end before the range's is not its end: a new leader may lag, an open transaction may hold readers back. */
        if (range && !range->finished && message->offset >= range->end) finish(consumer, range);
    } else if (message->err) {
        struct problem *problem = &consumer->message_problem;
        if (!range || !range->finished) {
            problem_set(problem, message->err, rd.message_errstr(message));
            problem->partition = message->partition;
            problem->offset = message->offset >= 0 ? message->offset : range ? range->next : -1;
            if (message->rkt) strncpy(problem->topic, rd.topic_name(message->rkt), sizeof problem->topic - 1);
            bytes = -1;
        }
    } else if (range && !range->finished && message->offset >= range->next) {
        if (message->offset < range->end) {
            touch(consumer, range);
            bytes = batch_size_add(&range->size, message, consumer->with_headers);
            consumer->owners[consumer->picked_count] = range;
            consumer->picked[consumer->picked_count++] = message;
            range->next = message->offset + 1;
            keep = 1;
        }
        if (message->offset >= range->end - 1) finish(consumer, range);
    }
    if (!keep) rd.message_destroy(message);
    return bytes;
}

/* Picks what librdkafka has ready, up to max_rows messages or the first at which they have max_bytes together. */
static void gather(struct consumer *consumer, int max_rows, int64_t max_bytes) {
    int64_t bytes = 0;
    while (consumer->picked_count < max_rows && bytes < max_bytes) {
        if (consumer->taken_next == consumer->taken_count) {
            consumer->taken_next = 0;
            consumer->taken_count = rd.consume_batch_queue(consumer->queue, 0, consumer->taken, TAKE);
            if (consumer->taken_count <= 0) {
                consumer->taken_count = 0;
                return;
            }
        }
        int64_t added = pick(consumer, consumer->taken[consumer->taken_next++]);
        if (added < 0) return;
        bytes += added;
    }
}

/*
 * So that a finished partition does not fill librdkafka's queue. Not by a pause: it outlives the assignment, and to
 * resume a partition that has just been assigned can stall it for a second.
 */
static void drop_finished(struct consumer *consumer) {
    rd_kafka_topic_partition_list_t *list = NULL;
    for (int i = 0; i < consumer->touched_count; i++) {
        struct range *range = consumer->touched[i];
        if (!range->newly_finished) continue;
        if (!list) list = rd.topic_partition_list_new(consumer->touched_count);
        rd.topic_partition_list_add(list, range->topic, range->partition);
    }
    if (!list) return;
    rd_kafka_error_t *error = rd.incremental_unassign(consumer->client, list);
    if (error) rd.error_destroy(error);
    rd.topic_partition_list_destroy(list);
}

/* Makes the results out of what was picked. 0, or -1 if there is no memory. */
static int build(struct consumer *consumer) {
    int built = 0;
    consumer->results = calloc((size_t)consumer->touched_count, sizeof *consumer->results);
    for (int i = 0; i < consumer->touched_count; i++) {
        struct range *range = consumer->touched[i];
        if (range->size.rows == 0) continue;
        range->batch = record_batch_new(&range->size, consumer->with_headers);
        if (!range->batch) built = -1;
    }
    for (int i = 0; i < consumer->picked_count; i++) {
        struct record_batch *batch = consumer->owners[i]->batch;
        if (batch) record_batch_append(batch, consumer->picked[i]);
        rd.message_destroy(consumer->picked[i]);
    }
    for (int i = 0; i < consumer->touched_count; i++) {
        struct range *range = consumer->touched[i];
        struct fetched *result = &consumer->results[i];
        result->range = (int32_t)(range - consumer->ranges);
        result->finished = range->newly_finished;
        if (range->batch) record_batch_finish(range->batch, &result->records);
        range->batch = NULL;
        range->newly_finished = 0;
        range->size = (struct batch_size){0};
    }
    consumer->result_count = consumer->touched_count;
    consumer->picked_count = consumer->touched_count = 0;
    return built;
}

static int tell(struct problem *kept, struct problem *problem) {
    if (!kept->code) return 0;
    *problem = *kept;
    memset(kept, 0, sizeof *kept);
    return 1;
}

/*
 * How many results there are (0 after timeout_ms, or when woken up), or -1 and the problem: polling again goes on.
 * Results are the caller's to release; what it leaves is freed by the next call.
 */
EXPORT int penstock_consumer_poll(struct consumer *consumer, int timeout_ms, int max_rows, int64_t max_bytes,
                                  struct fetched **results, struct problem *problem) {
    int64_t deadline = now_ms() + timeout_ms;
    drop_results(consumer);
    if (max_rows > consumer->picked_capacity) {
        consumer->picked = realloc(consumer->picked, sizeof *consumer->picked * (size_t)max_rows);
        consumer->owners = realloc(consumer->owners, sizeof *consumer->owners * (size_t)max_rows);
        consumer->picked_capacity = max_rows;
    }
    for (;;) {
        if (tell(&consumer->message_problem, problem)) return -1;
        for (int kind = 0; kind < EVENTS; kind++)
            if (tell(&consumer->events[kind], problem)) return -1;
        gather(consumer, max_rows, max_bytes);
        if (consumer->touched_count > 0) {
            drop_finished(consumer);
            if (build(consumer) == 0) {
                *results = consumer->results;
                return consumer->result_count;
            }
            problem_set(problem, RD_OUT_OF_MEMORY, "out of memory for a batch of records");
            problem->fatal = 1;
            return -1;
        }
        if (consumer->message_problem.code) continue;
        int64_t left = deadline - now_ms();
        if (atomic_exchange(&consumer->woken, 0) || left <= 0) return 0;
        /* One message only: librdkafka would wait for as many as asked. In slices: its own wake-up is a hint. */
        consumer->taken_next = 0;
        consumer->taken_count = rd.consume_batch_queue(
            consumer->queue, (int)(left < WAIT_SLICE_MS ? left : WAIT_SLICE_MS), consumer->taken, 1);
        if (consumer->taken_count < 0) consumer->taken_count = 0;
    }
}

EXPORT void penstock_consumer_wake_up(struct consumer *consumer) {
    atomic_store(&consumer->woken, 1);
    rd.queue_yield(consumer->queue);
}

EXPORT void penstock_consumer_close(struct consumer *consumer) {
    drop_results(consumer);
    drop_ranges(consumer);
    rd.queue_destroy(consumer->queue);
    /* It never joined a group: there is none to leave. */
    rd.destroy_flags(consumer->client, RD_DESTROY_WITHOUT_CLOSE);
    free(consumer->picked);
    free(consumer->owners);
    free(consumer);
}
