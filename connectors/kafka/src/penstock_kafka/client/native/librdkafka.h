/*
 * The part of librdkafka's public, stable binary interface that is used here, declared in our own words: the library
 * itself comes with confluent-kafka, is found at run time, and is not needed to compile.
 */
#ifndef PENSTOCK_LIBRDKAFKA_H
#define PENSTOCK_LIBRDKAFKA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;

/* Codes that the C code itself has to tell apart; every other code is only passed on, with its name. */
enum {
    RD_PARTITION_EOF = -191,
    RD_FATAL = -150,
    RD_ALL_BROKERS_DOWN = -187,
    RD_TRANSPORT = -195,
    RD_RESOLVE = -193,
    RD_INVALID_ARGUMENT = -186,
    RD_OUT_OF_MEMORY = -194,
};

enum { RD_CONSUMER = 1 };
enum { RD_DESTROY_WITHOUT_CLOSE = 0x8 };

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
    void *metadata;
    size_t metadata_size;
    void *opaque;
    int err;
    void *_private;
} rd_kafka_topic_partition_t;

typedef struct {
    int cnt;
    int size;
    rd_kafka_topic_partition_t *elems;
} rd_kafka_topic_partition_list_t;

/* X(return type, name, parameters) for every function; rd.name is where it was found. */
#define RD_FUNCTIONS(X)                                                                                               \
    X(int, version, (void))                                                                                           \
    X(const char *, err2name, (int))                                                                                  \
    X(const char *, err2str, (int))                                                                                   \
    X(rd_kafka_conf_t *, conf_new, (void))                                                                            \
    X(void, conf_destroy, (rd_kafka_conf_t *))                                                                        \
    X(int, conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t))                                 \
    X(void, conf_set_opaque, (rd_kafka_conf_t *, void *))                                                             \
    X(void, conf_set_error_cb, (rd_kafka_conf_t *, void (*)(rd_kafka_t *, int, const char *, void *)))                \
    X(rd_kafka_t *, new, (int, rd_kafka_conf_t *, char *, size_t))                                                    \
    X(void, destroy_flags, (rd_kafka_t *, int))                                                                       \
    X(int, fatal_error, (rd_kafka_t *, char *, size_t))                                                               \
    X(int, poll_set_consumer, (rd_kafka_t *))                                                                         \
    X(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *))                                                         \
    X(void, queue_destroy, (rd_kafka_queue_t *))                                                                      \
    X(void, queue_yield, (rd_kafka_queue_t *))                                                                        \
    X(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                         \
    X(void, message_destroy, (rd_kafka_message_t *))                                                                  \
    X(const char *, message_errstr, (const rd_kafka_message_t *))                                                     \
    X(int64_t, message_timestamp, (const rd_kafka_message_t *, int *))                                                \
    X(int, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))                                      \
    X(size_t, header_cnt, (const rd_kafka_headers_t *))                                                               \
    X(int, header_get_all, (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))              \
    X(const char *, topic_name, (const rd_kafka_topic_t *))                                                           \
    X(rd_kafka_topic_partition_list_t *, topic_partition_list_new, (int))                                             \
    X(void, topic_partition_list_destroy, (rd_kafka_topic_partition_list_t *))                                        \
    X(rd_kafka_topic_partition_t *, topic_partition_list_add,                                                         \
      (rd_kafka_topic_partition_list_t *, const char *, int32_t))                                                     \
    X(int, assign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *))                                           \
    X(rd_kafka_error_t *, incremental_unassign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *))              \
    X(void, error_destroy, (rd_kafka_error_t *))

#define RD_MEMBER(type, name, parameters) type(*name) parameters;
struct librdkafka {
    RD_FUNCTIONS(RD_MEMBER)
};
#undef RD_MEMBER

extern struct librdkafka rd;

#endif
