/*
 * Mutates inputs and tries them, in a process that was built with sanitizers:
 *   driver BOARD SEEDS SEED SECONDS COUNT   SEEDS: each input after its length (4 bytes, little-endian); 0 s: by COUNT
 *   driver BOARD FILE                       tries one input
 * The board is the one of fuzz/child.py: what is being tried stands on it, whatever ends the process.
 */
#include "driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BOARD_BYTES = 1 << 20, HEAD_BYTES = 24, MOST_SEEDS = 256, MOST_BYTES = 1 << 16 };

static uint64_t state;
static uint8_t *seeds[MOST_SEEDS];
static size_t lengths[MOST_SEEDS];
static uint32_t seed_count;

uint32_t dice(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (uint32_t)(state >> 32) % below : 0;
}

static uint8_t *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) exit(3);
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*length ? *length : 1);
    if (fread(data, 1, *length, file) != *length) exit(3);
    fclose(file);
    return data;
}

static void show(uint8_t *board, int64_t tried, const uint8_t *data, size_t length) {
    int64_t head[3] = {0, tried, (int64_t)length};
    memcpy(board + HEAD_BYTES, data, length);
    memcpy(board, head, sizeof head);
}

/* What an input is tried with depends on the input alone, so that it can be tried again. */
static void run(const uint8_t *data, size_t length) {
    uint64_t kept = state;
    state = 88172645463325252ull;
    for (size_t i = 0; i < length; i++) state = (state ^ data[i]) * 1099511628211ull;
    state |= 1;
    uint8_t *exact = malloc(length ? length : 1);
    memcpy(exact, data, length);
    try_input(exact, length);
    free(exact);
    state = kept;
}

static size_t place(size_t length) { return dice((uint32_t)(dice(5) < 2 && length > 90 ? 90 : length) + 1); }

static size_t removed(uint8_t *data, size_t length, size_t at, size_t count) {
    if (count > length - at) count = length - at;
    memmove(data + at, data + at + count, length - at - count);
    return length - count;
}

static size_t inserted(uint8_t *data, size_t length, size_t at, const uint8_t *what, size_t count) {
    if (length + count > MOST_BYTES) return length;
    uint8_t copy[512];
    memcpy(copy, what, count);
    memmove(data + at + count, data + at, length - at);
    memcpy(data + at, copy, count);
    return length + count;
}

static size_t mutated(uint8_t *data, size_t length) {
    static const uint64_t numbers[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000,
                                       0xffffffff, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN, 1ull << 40};
    size_t at = place(length);
    switch (dice(7)) {
    case 0:
        if (at < length) data[at] ^= (uint8_t)(1 << dice(8));
        return length;
    case 1:
        if (at < length) data[at] = (uint8_t)dice(256);
        return length;
    case 2: {
        uint64_t number = dice(4) ? numbers[dice(sizeof numbers / sizeof *numbers)] : length + dice(3) - 1;
        size_t size = (size_t)1 << dice(4);
        for (size_t i = 0; i < size && at + i < length; i++) data[at + i] = (uint8_t)(number >> 8 * (size - 1 - i));
        return length;
    }
    case 3: return removed(data, length, at, 1 + dice(dice(2) ? 4 : 64));
    case 4: return at;
    case 5: {
        size_t count = 1 + dice(64);
        return inserted(data, length, at, data + at, count < length - at ? count : length - at);
    }
    default: {
        uint32_t other = dice(seed_count);
        size_t start = dice((uint32_t)lengths[other] + 1), count = 1 + dice(256);
        if (count > lengths[other] - start) count = lengths[other] - start;
        return inserted(data, length, at, seeds[other] + start, count);
    }
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **arguments) {
    int file = open(arguments[1], O_RDWR);
    uint8_t *board = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || board == MAP_FAILED) return 3;
    size_t length;
    uint8_t *all = read_file(arguments[2], &length);
    state = 88172645463325252ull;
    if (count == 3) {
        show(board, 0, all, length);
        run(all, length);
        return 0;
    }
    for (size_t at = 0; at + 4 <= length && seed_count < MOST_SEEDS; seed_count++) {
        uint32_t size;
        memcpy(&size, all + at, 4);
        seeds[seed_count] = all + at + 4;
        lengths[seed_count] = size;
        at += 4 + size;
    }
    state += strtoull(arguments[3], NULL, 10) * 0x9e3779b97f4a7c15ull;
    double until = now() + atof(arguments[4]);
    int by_time = atof(arguments[4]) > 0;
    int64_t most = atoll(arguments[5]), tried = 0;
    static uint8_t data[MOST_BYTES + 512];
    for (; by_time ? tried % 256 || now() < until : tried < most; tried++) {
        uint32_t which = (uint64_t)tried < seed_count ? (uint32_t)tried : dice(seed_count);
        size_t size = lengths[which] < MOST_BYTES ? lengths[which] : MOST_BYTES;
        memcpy(data, seeds[which], size);
        if ((uint64_t)tried >= seed_count) {
            for (uint32_t times = 1 + dice(dice(3) ? 3 : 12); times; times--) size = mutated(data, size);
            if (dice(8)) repair(data, size);
        }
        show(board, tried, data, size);
        run(data, size);
    }
    show(board, tried, data, 0);
    free(all);
    return 0;
}
