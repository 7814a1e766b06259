#include "common.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct librdkafka rd;

EXPORT const char *penstock_source_hash(void) { return PENSTOCK_SOURCE_HASH; }

/*
 * Finds librdkafka's functions among those of the library at path and of the libraries it is linked with. Returns
 * librdkafka's version, or 0 with what is missing in text.
 */
EXPORT int penstock_bind(const char *path, char *text, size_t text_size) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        snprintf(text, text_size, "%s", dlerror());
        return 0;
    }
#define RD_FIND(type, name, parameters)                                                                               \
    *(void **)&rd.name = dlsym(library, "rd_kafka_" #name);                                                           \
    if (!rd.name) {                                                                                                   \
        snprintf(text, text_size, "librdkafka has no function rd_kafka_%s", #name);                                   \
        return 0;                                                                                                     \
    }
    RD_FUNCTIONS(RD_FIND)
#undef RD_FIND
    return rd.version();
}

void problem_set(struct problem *problem, int code, const char *text) {
    memset(problem, 0, sizeof *problem);
    problem->code = code;
    problem->partition = -1;
    problem->offset = -1;
    snprintf(problem->name, sizeof problem->name, "%s", rd.err2name(code));
    snprintf(problem->text, sizeof problem->text, "%s", text ? text : rd.err2str(code));
}

rd_kafka_conf_t *configure(const char *const *names, const char *const *values, int count, struct problem *problem) {
    rd_kafka_conf_t *conf = rd.conf_new();
    /* Not passed on: librdkafka's words may quote the value, which may be a secret. */
    char ignored[512];
    for (int i = 0; i < count; i++) {
        if (rd.conf_set(conf, names[i], values[i], ignored, sizeof ignored) != 0) {
            rd.conf_destroy(conf);
            problem_set(problem, RD_INVALID_ARGUMENT, NULL);
            snprintf(problem->topic, sizeof problem->topic, "%s", names[i]);
            return NULL;
        }
    }
    return conf;
}

int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
