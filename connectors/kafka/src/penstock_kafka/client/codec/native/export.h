/* What the library offers. */
#ifndef PENSTOCK_EXPORT_H
#define PENSTOCK_EXPORT_H

#define EXPORT __attribute__((visibility("default")))

#endif
