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
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_consumer_group_metadata_s rd_kafka_consumer_group_metadata_t;

/* Codes that the C code itself has to tell apart; every other code is only passed on, with its name. */
enum {
    RD_QUEUE_FULL = -184,
    RD_PARTITION_EOF = -191,
    RD_PURGE_QUEUE = -152,
    RD_PURGE_INFLIGHT = -151,
    RD_STATE = -172,
    RD_FATAL = -150,
    RD_MESSAGE_TIMED_OUT = -192,
    RD_AUTHENTICATION = -169,
    RD_ALL_BROKERS_DOWN = -187,
    RD_TRANSPORT = -195,
    RD_RESOLVE = -193,
    RD_INVALID_ARGUMENT = -186,
    RD_OUT_OF_MEMORY = -194,
    RD_INVALID_TOPIC = 17,
    RD_TOO_LARGE = 10,
};

enum { RD_PRODUCER = 0, RD_CONSUMER = 1 };
enum { RD_MSG_COPY = 0x2, RD_MSG_PARTITION = 0x8 };
enum { RD_PURGE_QUEUED = 0x1, RD_PURGE_SENT = 0x2, RD_PURGE_DO_NOT_WAIT = 0x4 };
enum { RD_DESTROY_WITHOUT_CLOSE = 0x8 };
enum { RD_PARTITION_ANY = -1 };

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

/* One argument of rd_kafka_produceva. */
enum { RD_V_RKT = 2, RD_V_PARTITION = 3, RD_V_VALUE = 4, RD_V_KEY = 5, RD_V_FLAGS = 7, RD_V_TIMESTAMP = 8, RD_V_HEADERS = 10 };
typedef struct {
    int vtype;
    union {
        rd_kafka_topic_t *rkt;
        int i;
        int32_t i32;
        int64_t i64;
        struct {
            void *ptr;
            size_t size;
        } mem;
        rd_kafka_headers_t *headers;
        char padding[64];
    } u;
} rd_kafka_vu_t;

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
    X(void, conf_set_stats_cb, (rd_kafka_conf_t *, int (*)(rd_kafka_t *, char *, size_t, void *)))                    \
    X(void, conf_set_dr_msg_cb, (rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *)))      \
    X(rd_kafka_t *, new, (int, rd_kafka_conf_t *, char *, size_t))                                                    \
    X(void, destroy_flags, (rd_kafka_t *, int))                                                                       \
    X(int, fatal_error, (rd_kafka_t *, char *, size_t))                                                               \
    X(int, poll_set_consumer, (rd_kafka_t *))                                                                         \
    X(int, poll, (rd_kafka_t *, int))                                                                                 \
    X(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *))                                                         \
    X(rd_kafka_queue_t *, queue_get_main, (rd_kafka_t *))                                                             \
    X(void, queue_destroy, (rd_kafka_queue_t *))                                                                      \
    X(void, queue_yield, (rd_kafka_queue_t *))                                                                        \
    X(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                         \
    X(void, message_destroy, (rd_kafka_message_t *))                                                                  \
    X(const char *, message_errstr, (const rd_kafka_message_t *))                                                     \
    X(int64_t, message_timestamp, (const rd_kafka_message_t *, int *))                                                \
    X(int, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))                                      \
    X(size_t, header_cnt, (const rd_kafka_headers_t *))                                                               \
    X(int, header_get_all, (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))              \
    X(rd_kafka_headers_t *, headers_new, (size_t))                                                                    \
    X(void, headers_destroy, (rd_kafka_headers_t *))                                                                  \
    X(int, header_add, (rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t))                          \
    X(const char *, topic_name, (const rd_kafka_topic_t *))                                                           \
    X(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, rd_kafka_topic_conf_t *))                           \
    X(void, topic_destroy, (rd_kafka_topic_t *))                                                                      \
    X(rd_kafka_topic_partition_list_t *, topic_partition_list_new, (int))                                             \
    X(void, topic_partition_list_destroy, (rd_kafka_topic_partition_list_t *))                                        \
    X(rd_kafka_topic_partition_t *, topic_partition_list_add,                                                         \
      (rd_kafka_topic_partition_list_t *, const char *, int32_t))                                                     \
    X(int, assign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *))                                           \
    X(rd_kafka_error_t *, incremental_unassign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *))               \
    X(int, produce_batch, (rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t *, int))                              \
    X(rd_kafka_error_t *, produceva, (rd_kafka_t *, const rd_kafka_vu_t *, size_t))                                   \
    X(int, flush, (rd_kafka_t *, int))                                                                                \
    X(int, purge, (rd_kafka_t *, int))                                                                                \
    X(int, outq_len, (rd_kafka_t *))                                                                                  \
    X(int, metadata, (rd_kafka_t *, int, rd_kafka_topic_t *, const void **, int))                                     \
    X(void, metadata_destroy, (const void *))                                                                         \
    X(rd_kafka_error_t *, init_transactions, (rd_kafka_t *, int))                                                     \
    X(rd_kafka_error_t *, begin_transaction, (rd_kafka_t *))                                                          \
    X(rd_kafka_error_t *, send_offsets_to_transaction,                                                                \
      (rd_kafka_t *, const rd_kafka_topic_partition_list_t *, const rd_kafka_consumer_group_metadata_t *, int))       \
    X(rd_kafka_error_t *, abort_transaction, (rd_kafka_t *, int))                                                     \
    X(rd_kafka_consumer_group_metadata_t *, consumer_group_metadata_new, (const char *))                              \
    X(void, consumer_group_metadata_destroy, (rd_kafka_consumer_group_metadata_t *))                                  \
    X(int, error_code, (const rd_kafka_error_t *))                                                                    \
    X(const char *, error_string, (const rd_kafka_error_t *))                                                         \
    X(int, error_is_fatal, (const rd_kafka_error_t *))                                                                \
    X(int, error_is_retriable, (const rd_kafka_error_t *))                                                            \
    X(int, error_txn_requires_abort, (const rd_kafka_error_t *))                                                      \
    X(void, error_destroy, (rd_kafka_error_t *))

#define RD_MEMBER(type, name, parameters) type(*name) parameters;
struct librdkafka {
    RD_FUNCTIONS(RD_MEMBER)
};
#undef RD_MEMBER

extern struct librdkafka rd;

#endif
