/* Private: scenes as bytes, for a program without YAML and files: the WebAssembly module of a page. They are written and read
 * by the same version of qkv and are no file format. */
#ifndef QKV_EXPLAIN_PACKED_SCENE_H
#define QKV_EXPLAIN_PACKED_SCENE_H

#include "qkv/scene.h"

#include <stddef.h>

/* Writes bytes somewhere, or puts the next bytes there. False: there is no room, or there are no more. */
typedef bool (*qkv_pass)(void *context, void *bytes, size_t size);

/* Passes all values of a scene that was read, in a fixed order; where `pass` puts bytes, the scene must be all zero at
 * first, and its texts and matrices are put into the arena. Passed are also the fields that qkv_scene_read computes, so the scene
 * needs no check. Not passed: paths and the places of keys, so a scene that names a run cannot be packed. False when `pass` says
 * so or memory is out. */
bool qkv_scene_pass(struct qkv_scene *scene, qkv_pass pass, void *context, struct qkv_arena *arena);

#endif
