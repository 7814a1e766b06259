#include "columns.h"
#include "common.h"
#include "topics.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 1024, QUEUE_FULL_WAIT_MS = 10, SERVE_MS = 1000 };

struct producer {
    rd_kafka_t *client;
    rd_kafka_queue_t *events;
    pthread_t server;
    atomic_int closing;
    struct topics topics;
    rd_kafka_message_t run[RUN]; /* records of one topic that need neither headers nor a time of their own */
    int run_length;
    rd_kafka_topic_t *run_topic;
    pthread_mutex_t lock; /* of what follows: callbacks run in whichever thread polls */
    int64_t failed;
    struct problem first_failure;
    struct problem event;
    int wants_statistics;
    char *statistics;
};

static int is_purge(int code) { return code == RD_PURGE_QUEUE || code == RD_PURGE_INFLIGHT; }

/* Whether nothing can be delivered after event. */
static int ends_all(const struct problem *event) { return event->fatal || event->code == RD_AUTHENTICATION; }

/* Keeps the first failure; one that only follows from another gives way to its cause. */
static void count_failure(struct producer *producer, int code, const char *topic, int32_t partition, size_t size) {
    pthread_mutex_lock(&producer->lock);
    producer->failed++;
    struct problem *first = &producer->first_failure;
    int purged = is_purge(first->code) && !is_purge(code);
    /* The broker refuses a whole batch for the one record that is too large. */
    int larger = first->code == RD_TOO_LARGE && code == RD_TOO_LARGE && (int64_t)size > first->size;
    if (!first->code || purged || larger) {
        problem_set(first, code, NULL);
        snprintf(first->topic, sizeof first->topic, "%s", topic);
        first->partition = partition;
        first->size = (int64_t)size;
    }
    pthread_mutex_unlock(&producer->lock);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    if (message->err)
        count_failure(opaque, message->err, rd.topic_name(message->rkt), message->partition,
                      message->len + message->key_len);
}

static void on_error(rd_kafka_t *client, int code, const char *reason, void *opaque) {
    struct producer *producer = opaque;
    char text[512];
    int fatal = code == RD_FATAL;
    if (fatal) code = rd.fatal_error(client, text, sizeof text), reason = text;
    pthread_mutex_lock(&producer->lock);
    if (fatal || !ends_all(&producer->event)) {
        problem_set(&producer->event, code, reason);
        producer->event.fatal = fatal;
    }
    pthread_mutex_unlock(&producer->lock);
}

static int on_statistics(rd_kafka_t *client, char *json, size_t length, void *opaque) {
    (void)client;
    struct producer *producer = opaque;
    pthread_mutex_lock(&producer->lock);
    if (producer->wants_statistics) {
        free(producer->statistics);
        producer->statistics = strndup(json, length);
    }
    pthread_mutex_unlock(&producer->lock);
    return 0;
}

/* Statistics and errors pile up in an idle producer that nobody polls. */
static void *serve(void *opaque) {
    struct producer *producer = opaque;
    while (!atomic_load(&producer->closing)) rd.poll(producer->client, SERVE_MS);
    return NULL;
}

static void start_server(struct producer *producer) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&producer->server, NULL, serve, producer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

EXPORT struct producer *penstock_producer_open(const char *const *names, const char *const *values, int count,
                                               struct problem *problem) {
    rd_kafka_conf_t *conf = configure(names, values, count, problem);
    if (!conf) return NULL;
    struct producer *producer = calloc(1, sizeof *producer);
    pthread_mutex_init(&producer->lock, NULL);
    rd.conf_set_opaque(conf, producer);
    rd.conf_set_error_cb(conf, on_error);
    rd.conf_set_stats_cb(conf, on_statistics);
    rd.conf_set_dr_msg_cb(conf, on_delivery);
    char text[512];
    producer->client = rd.new(RD_PRODUCER, conf, text, sizeof text);
    if (!producer->client) {
        problem_set(problem, RD_INVALID_ARGUMENT, text);
        rd.conf_destroy(conf);
        free(producer);
        return NULL;
    }
    producer->events = rd.queue_get_main(producer->client);
    start_server(producer);
    return producer;
}

/* Whether to give up: nothing will be delivered any more, or has not been for as long as the user wants to wait. */
static int is_lost(struct producer *producer) {
    pthread_mutex_lock(&producer->lock);
    int code = producer->first_failure.code;
    int lost = ends_all(&producer->event) || code == RD_STATE || code == RD_MESSAGE_TIMED_OUT || is_purge(code);
    pthread_mutex_unlock(&producer->lock);
    return lost;
}

/* Queues the run, in order: what finds the queue full is tried again, with all that came after it. */
static void send_run(struct producer *producer) {
    rd_kafka_message_t *run = producer->run;
    while (producer->run_length > 0) {
        int left = 0;
        int queued = rd.produce_batch(producer->run_topic, RD_PARTITION_ANY, RD_MSG_COPY | RD_MSG_PARTITION, run,
                                      producer->run_length);
        for (int i = 0; queued < producer->run_length && i < producer->run_length; i++) {
            if (run[i].err == RD_QUEUE_FULL) {
                run[left] = run[i];
                run[left++].err = 0;
            } else if (run[i].err) {
                count_failure(producer, run[i].err, rd.topic_name(producer->run_topic), run[i].partition,
                              run[i].len + run[i].key_len);
            }
        }
        producer->run_length = left;
        if (left > 0 && is_lost(producer)) producer->run_length = 0;
        if (producer->run_length > 0) rd.poll(producer->client, QUEUE_FULL_WAIT_MS);
    }
}

static rd_kafka_headers_t *headers_of(const struct delivery *delivery, int64_t row) {
    if (column_is_null(&delivery->headers, row)) return NULL;
    int64_t start = column_offset(&delivery->headers, row), end = column_offset(&delivery->headers, row + 1);
    if (start == end) return NULL;
    rd_kafka_headers_t *headers = rd.headers_new((size_t)(end - start));
    for (int64_t i = start; i < end; i++) {
        struct slice key = column_bytes(&delivery->header_key, i), value = column_bytes(&delivery->header_value, i);
        rd.header_add(headers, key.start ? key.start : "", (ssize_t)key.length, value.start, (ssize_t)value.length);
    }
    return headers;
}

/* Queues one record with all that librdkafka can say of it. headers is taken over. */
static void send_one(struct producer *producer, rd_kafka_topic_t *topic, const rd_kafka_message_t *record,
                     int64_t timestamp, rd_kafka_headers_t *headers) {
    rd_kafka_vu_t arguments[7] = {
        {.vtype = RD_V_RKT, .u.rkt = topic},
        {.vtype = RD_V_PARTITION, .u.i32 = record->partition},
        {.vtype = RD_V_FLAGS, .u.i = RD_MSG_COPY},
        {.vtype = RD_V_VALUE, .u.mem = {record->payload, record->len}},
        {.vtype = RD_V_KEY, .u.mem = {record->key, record->key_len}},
        {.vtype = RD_V_TIMESTAMP, .u.i64 = timestamp},
        {.vtype = RD_V_HEADERS, .u.headers = headers},
    };
    for (;;) {
        rd_kafka_error_t *error = rd.produceva(producer->client, arguments, headers ? 7 : 6);
        if (!error) return;
        int code = rd.error_code(error);
        rd.error_destroy(error);
        if (code == RD_QUEUE_FULL && !is_lost(producer)) {
            rd.poll(producer->client, QUEUE_FULL_WAIT_MS);
            continue;
        }
        if (headers) rd.headers_destroy(headers);
        if (code != RD_QUEUE_FULL)
            count_failure(producer, code, rd.topic_name(topic), record->partition, record->len + record->key_len);
        return;
    }
}

/* Queues every row, waiting while the queue is full; stops early if nothing is delivered any more. */
EXPORT void penstock_producer_produce(struct producer *producer, const struct ArrowSchema *schema,
                                      const struct ArrowArray *batch) {
    struct delivery delivery;
    delivery_open(&delivery, schema, batch);
    for (int64_t row = 0; row < delivery.rows; row++) {
        struct slice name = column_bytes(&delivery.topic, row);
        struct slice key = column_bytes(&delivery.key, row), value = column_bytes(&delivery.value, row);
        int64_t timestamp = column_int64(&delivery.timestamp, row, 0);
        rd_kafka_headers_t *headers = headers_of(&delivery, row);
        rd_kafka_topic_t *topic = topics_find(&producer->topics, producer->client, name);
        rd_kafka_message_t record = {.partition = column_int32(&delivery.partition, row, RD_PARTITION_ANY),
                                     .payload = (void *)value.start,
                                     .len = value.length,
                                     .key = (void *)key.start,
                                     .key_len = key.length};
        int plain = topic && !headers && timestamp == 0;
        if (producer->run_length == RUN || (producer->run_length && (!plain || topic != producer->run_topic)))
            send_run(producer);
        if (plain) {
            producer->run_topic = topic;
            producer->run[producer->run_length++] = record;
        } else if (topic) {
            send_one(producer, topic, &record, timestamp, headers);
        } else {
            char text[256];
            snprintf(text, sizeof text, "%.*s", (int)name.length, (const char *)name.start);
            count_failure(producer, RD_INVALID_TOPIC, text, record.partition, value.length + key.length);
            if (headers) rd.headers_destroy(headers);
        }
        if (row % RUN == 0 && is_lost(producer)) break;
    }
    send_run(producer);
}

/* Waits up to timeout_ms for all to be acknowledged or refused. Returns how many are still on their way. */
EXPORT int penstock_producer_flush(struct producer *producer, int timeout_ms) {
    return rd.flush(producer->client, timeout_ms) == 0 ? 0 : rd.outq_len(producer->client);
}

/* How many records failed, with the first failure and the last event (code 0: none), which is then forgotten. */
EXPORT int64_t penstock_producer_failures(struct producer *producer, struct problem *first, struct problem *event) {
    pthread_mutex_lock(&producer->lock);
    int64_t failed = producer->failed;
    *first = producer->first_failure;
    *event = producer->event;
    if (!producer->event.fatal) memset(&producer->event, 0, sizeof producer->event);
    pthread_mutex_unlock(&producer->lock);
    return failed;
}

/* The newest statistics, as JSON in buffer; 0 if there are none since the last call. Too long ones are dropped. */
EXPORT int penstock_producer_statistics(struct producer *producer, char *buffer, size_t size) {
    pthread_mutex_lock(&producer->lock);
    producer->wants_statistics = buffer != NULL;
    size_t length = producer->statistics ? strlen(producer->statistics) : 0;
    if (buffer && length > 0 && length < size)
        memcpy(buffer, producer->statistics, length + 1);
    else
        length = 0;
    free(producer->statistics);
    producer->statistics = NULL;
    pthread_mutex_unlock(&producer->lock);
    return (int)length;
}

static int result_of(rd_kafka_error_t *error, struct problem *problem) {
    if (error) problem_take(problem, error);
    return error ? -1 : 0;
}

EXPORT int penstock_producer_init_transactions(struct producer *producer, int timeout_ms, struct problem *problem) {
    /* Brings the connection up first: registering finds it missing otherwise and waits half a second to try again. */
    const void *metadata = NULL;
    int64_t deadline = now_ms() + timeout_ms;
    int code = rd.metadata(producer->client, 0, NULL, &metadata, timeout_ms);
    if (code != 0) {
        problem_set(problem, code, NULL);
        return -1;
    }
    rd.metadata_destroy(metadata);
    int64_t left = deadline - now_ms();
    return result_of(rd.init_transactions(producer->client, left > 1 ? (int)left : 1), problem);
}

EXPORT int penstock_producer_begin_transaction(struct producer *producer, struct problem *problem) {
    return result_of(rd.begin_transaction(producer->client), problem);
}

EXPORT int penstock_producer_send_offset(struct producer *producer, const char *group, const char *topic,
                                         int partition, int64_t offset, const char *metadata, int timeout_ms,
                                         struct problem *problem) {
    rd_kafka_consumer_group_metadata_t *member = rd.consumer_group_metadata_new(group);
    rd_kafka_topic_partition_list_t *list = rd.topic_partition_list_new(1);
    rd_kafka_topic_partition_t *place = rd.topic_partition_list_add(list, topic, partition);
    place->offset = offset;
    /* Freed with the list, by librdkafka: so it must be of the C library's heap, as it is. */
    place->metadata = strdup(metadata);
    place->metadata_size = strlen(metadata);
    rd_kafka_error_t *error = rd.send_offsets_to_transaction(producer->client, list, member, timeout_ms);
    rd.topic_partition_list_destroy(list);
    rd.consumer_group_metadata_destroy(member);
    return result_of(error, problem);
}

EXPORT int penstock_producer_abort_transaction(struct producer *producer, int timeout_ms, struct problem *problem) {
    return result_of(rd.abort_transaction(producer->client, timeout_ms), problem);
}

EXPORT void penstock_producer_close(struct producer *producer) {
    rd.purge(producer->client, RD_PURGE_QUEUED | RD_PURGE_SENT | RD_PURGE_DO_NOT_WAIT);
    atomic_store(&producer->closing, 1);
    rd.queue_yield(producer->events);
    pthread_join(producer->server, NULL);
    rd.queue_destroy(producer->events);
    topics_free(&producer->topics);
    /* Does not end a transaction. */
    rd.destroy_flags(producer->client, 0);
    pthread_mutex_destroy(&producer->lock);
    free(producer->statistics);
    free(producer);
}
