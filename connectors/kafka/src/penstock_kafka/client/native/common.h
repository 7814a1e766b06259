/* How problems are told to Python, and how a client is configured. */
#ifndef PENSTOCK_COMMON_H
#define PENSTOCK_COMMON_H

#include "librdkafka.h"

#define EXPORT __attribute__((visibility("default")))

/* Mirrored by a ctypes structure in _library.py. Empty while code is 0. */
struct problem {
    int32_t code;
    int32_t partition;
    int64_t offset;
    int64_t size;
    int32_t fatal;
    char name[64];
    char topic[256];
    char text[512];
};

/* Fills problem with librdkafka's name of code and text (or librdkafka's words for the code, if text is NULL). */
void problem_set(struct problem *problem, int code, const char *text);

/* A configuration of count settings. NULL: problem->topic names the setting that was refused. */
rd_kafka_conf_t *configure(const char *const *names, const char *const *values, int count, struct problem *problem);

int64_t now_ms(void);

#endif
