/* A set of producer ids, for as many as it was opened for. */
#ifndef PENSTOCK_PRODUCER_SET_H
#define PENSTOCK_PRODUCER_SET_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Open addressing: an id keeps its slot once it has one, so that those behind it are still found. */
struct producer_set {
    int64_t *ids;
    uint8_t *states; /* of each slot: FREE, ABSENT, PRESENT */
    uint64_t mask;
};

enum { FREE, ABSENT, PRESENT };

static inline int producer_set_open(struct producer_set *set, int32_t count) {
    uint64_t slots = 4;
    while (slots < 2 * (uint64_t)count) slots *= 2;
    set->mask = slots - 1;
    set->ids = malloc(slots * sizeof *set->ids);
    set->states = malloc(slots);
    if (set->ids && set->states) return 1;
    free(set->ids);
    free(set->states);
    return 0;
}

static inline void producer_set_close(struct producer_set *set) {
    free(set->ids);
    free(set->states);
}

static inline void producer_set_clear(struct producer_set *set) { memset(set->states, FREE, set->mask + 1); }

static inline uint64_t producer_set_slot(const struct producer_set *set, int64_t id) {
    uint64_t slot = (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 32 & set->mask;
    while (set->states[slot] != FREE && set->ids[slot] != id) slot = (slot + 1) & set->mask;
    return slot;
}

static inline void producer_set_add(struct producer_set *set, int64_t id) {
    uint64_t slot = producer_set_slot(set, id);
    set->ids[slot] = id;
    set->states[slot] = PRESENT;
}

static inline int producer_set_holds(const struct producer_set *set, int64_t id) {
    return set->states[producer_set_slot(set, id)] == PRESENT;
}

/* Only of one that it holds. */
static inline void producer_set_remove(struct producer_set *set, int64_t id) {
    set->states[producer_set_slot(set, id)] = ABSENT;
}

#endif
