#include "topics.h"

#include <stdlib.h>
#include <string.h>

static int is_named(const struct topic *topic, struct slice name) {
    return topic->length == name.length && memcmp(topic->name, name.start, name.length) == 0;
}

static struct topic **bucket_of(struct topics *topics, struct slice name) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < name.length; i++) hash = (hash ^ ((const uint8_t *)name.start)[i]) * 16777619u;
    return &topics->buckets[(hash ^ hash >> 16) % TOPIC_BUCKETS];
}

rd_kafka_topic_t *topics_find(struct topics *topics, rd_kafka_t *client, struct slice name) {
    if (topics->last && is_named(topics->last, name)) return topics->last->handle;
    struct topic **bucket = bucket_of(topics, name);
    for (struct topic *topic = *bucket; topic; topic = topic->next)
        if (is_named(topic, name)) return (topics->last = topic)->handle;
    struct topic *topic = malloc(sizeof *topic + name.length + 1);
    memcpy(topic->name, name.start, name.length);
    topic->name[name.length] = 0;
    topic->length = name.length;
    topic->handle = rd.topic_new(client, topic->name, NULL);
    if (!topic->handle) {
        free(topic);
        return NULL;
    }
    topic->next = *bucket;
    *bucket = topic;
    return (topics->last = topic)->handle;
}

void topics_free(struct topics *topics) {
    for (int i = 0; i < TOPIC_BUCKETS; i++) {
        for (struct topic *topic = topics->buckets[i], *next; topic; topic = next) {
            next = topic->next;
            rd.topic_destroy(topic->handle);
            free(topic);
        }
    }
}
