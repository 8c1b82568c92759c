/* Private: scenes as bytes, for a program without YAML and files, the WebAssembly module of a page. They are written and read
 * by the same version of qkv and are not a file format. */
#ifndef QKV_EXPLAIN_PACKED_SCENE_H
#define QKV_EXPLAIN_PACKED_SCENE_H

#include "qkv/scene.h"

#include <stddef.h>

/* Writes `bytes` to the context or, when unpacking, reads the next bytes from the context into `bytes`. False: there is no
 * room, or there are no more bytes. */
typedef bool (*qkv_pass)(void *context, void *bytes, size_t size);

/* Calls `pass` for all values of a scene in a fixed order, to pack a scene that was read, or to unpack one: then the scene must
 * be all zero at first, and its texts and matrices are allocated in the arena. The fields that qkv_scene_read computes are
 * included, so an unpacked scene needs no check. Paths and the places of keys are not included, so a scene that names a run
 * cannot be packed. False when `pass` returns false or memory runs out. */
bool qkv_scene_pass(struct qkv_scene *scene, qkv_pass pass, void *context, struct qkv_arena *arena);

#endif
