/* Private: an open run as one block of bytes, for a program that has neither files nor the libraries that read them:
 * the WebAssembly module of a page. The block is made and read by the same version of qkv and is no file format.
 *
 * The block is a sequence of sections, each a size (8 bytes, little-endian) and that many bytes: the config as NUL-terminated
 * `key=value`; the vocabularies of source and target, one token per line; the merges of source and target, `left right` per
 * line, with the pieces that bpe_min_freq keeps, which have no space; the parameters in the order of their declaration. */
#pragma once

#include "qkv/run.h"

enum qkv_packed_numbers {
    QKV_PACKED_HALF,    /* parameters are rounded to half precision (core/numbers.h) */
    QKV_PACKED_FLOAT32, /* exact */
};

/* Packs a run whose parameters are float32 into memory that the caller frees. The paths of the config are left out: they
 * would tell where the run was trained. Fails when there is no memory, and when a parameter is beyond the range of half
 * precision. */
enum qkv_status qkv_run_pack(const struct qkv_run *run, enum qkv_packed_numbers numbers,
                             unsigned char **bytes, size_t *size, struct qkv_error *error);

/* Opens a packed run in float32, as qkv_run_open does; path, checkpoint and state are empty. Fails, with nothing to
 * release, when the block is not one of this version. */
enum qkv_status qkv_run_unpack(struct qkv_run *run, const unsigned char *bytes, size_t size,
                               struct qkv_error *error);

/* Packs only the parameters, in the format of the last section of a packed run. */
enum qkv_status qkv_run_pack_parameters(const struct qkv_run *run, enum qkv_packed_numbers numbers,
                                        unsigned char **bytes, size_t *size, struct qkv_error *error);

/* Reads packed parameters into an open run. Fails, and changes nothing, when they do not fit its model. */
enum qkv_status qkv_run_unpack_parameters(struct qkv_run *run, const unsigned char *bytes, size_t size,
                                          struct qkv_error *error);
