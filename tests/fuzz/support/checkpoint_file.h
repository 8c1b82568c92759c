/* Writes crafted checkpoints, whose checksum is right. */
#pragma once

#include "harness.h"

/* Writes a file with the right digits after the first "qkv.crc32":" of the bytes; returns its path. */
const char *write_checkpoint(const char *name, const uint8_t *bytes, size_t size);

/* Writes the checkpoint `file` with a changed header. Each line of the changes, `key=text`, sets an entry of the metadata;
 * `name.key=JSON`, with the name of a tensor, sets a key of that tensor. */
const char *write_changed_checkpoint(const char *name, const char *file, size_t size, struct input changes);
