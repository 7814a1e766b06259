/* librdkafka's handle of every topic a producer has sent to: to make one anew for each record takes a lock. */
#ifndef PENSTOCK_TOPICS_H
#define PENSTOCK_TOPICS_H

#include "columns.h"
#include "librdkafka.h"

enum { TOPIC_BUCKETS = 256 };

struct topic {
    rd_kafka_topic_t *handle;
    struct topic *next;
    size_t length;
    char name[];
};

struct topics {
    struct topic *buckets[TOPIC_BUCKETS];
    struct topic *last; /* records of a topic mostly come one after the other */
};

/* The topic's handle; NULL if librdkafka refuses the name. */
rd_kafka_topic_t *topics_find(struct topics *topics, rd_kafka_t *client, struct slice name);
void topics_free(struct topics *topics);

#endif
