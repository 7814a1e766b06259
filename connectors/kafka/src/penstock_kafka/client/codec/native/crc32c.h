/* CRC-32C (Castagnoli), the checksum of Kafka's record batches. */
#ifndef PENSTOCK_CRC32C_H
#define PENSTOCK_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const uint8_t *bytes, size_t length);

/* The same without the processor's own instruction, for processors that have none. */
uint32_t crc32c_by_tables(const uint8_t *bytes, size_t length);

#endif
