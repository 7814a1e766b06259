#include "columns.h"

#include <string.h>

static struct column open_column(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t shift) {
    char format = schema->format[0];
    return (struct column){.valid = array->null_count == 0 ? NULL : array->buffers[0],
                           .values = array->n_buffers > 1 ? array->buffers[1] : NULL,
                           .bytes = array->n_buffers > 2 ? array->buffers[2] : NULL,
                           .shift = array->offset + shift,
                           .wide = format == 'U' || format == 'Z'};
}

/* A list of pairs. The caller has made sure of the types. */
static void open_headers(struct delivery *delivery, const struct ArrowSchema *schema, const struct ArrowArray *array) {
    const struct ArrowArray *pair = array->children[0];
    const struct ArrowSchema *pair_schema = schema->children[0];
    delivery->header_key = open_column(pair_schema->children[0], pair->children[0], pair->offset);
    delivery->header_value = open_column(pair_schema->children[1], pair->children[1], pair->offset);
}

void delivery_open(struct delivery *delivery, const struct ArrowSchema *schema, const struct ArrowArray *batch) {
    struct {
        const char *name;
        struct column *column;
    } known[] = {{"key", &delivery->key},
                 {"value", &delivery->value},
                 {"topic", &delivery->topic},
                 {"partition", &delivery->partition},
                 {"timestamp", &delivery->timestamp},
                 {"headers", &delivery->headers}};
    memset(delivery, 0, sizeof *delivery);
    delivery->rows = batch->length;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        known[i].column->absent = 1;
        for (int64_t child = 0; child < schema->n_children; child++) {
            if (strcmp(schema->children[child]->name, known[i].name) != 0) continue;
            *known[i].column = open_column(schema->children[child], batch->children[child], batch->offset);
            if (known[i].column == &delivery->headers)
                open_headers(delivery, schema->children[child], batch->children[child]);
        }
    }
}
