/* What a driver of a C part is: it repairs mutated inputs and tries them. See driver.c. */
#ifndef PENSTOCK_FUZZ_DRIVER_H
#define PENSTOCK_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* Makes an input plausible, in place. */
void repair(uint8_t *data, size_t length);

/* Tries an input. data is a block of exactly length bytes, so that a byte read beyond it is found. */
void try_input(const uint8_t *data, size_t length);

/* A number below another; the same seed gives the same ones. */
uint32_t dice(uint32_t below);

#endif
