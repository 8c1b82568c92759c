/* Private: what scenes have besides their public interface in explain/explain.h. */
#pragma once

#include "explain/explain.h"

/* ---- scene_file.c ---- */

/* The beginning of a message about a key of a scene that was read: "configs/x.yaml:14:7: " when the file gives the key, else
 * "configs/x.yaml: ". In the arena; "" when memory runs out. */
const char *qkv_scene_place(const struct qkv_scene *scene, const char *key, struct qkv_arena *arena);

/* Writes a Markdown table of all keys with type, values, default and meaning. Fails when the file cannot be written. */
enum qkv_status qkv_scene_write_reference(FILE *file);

/* Writes `bytes` to the context or, when unpacking, reads the next bytes from the context into `bytes`. False: there is no
 * room, or there are no more bytes. */
typedef bool qkv_pass(void *context, void *bytes, size_t size);

/* Scenes as bytes, for a program without YAML and files, the WebAssembly module of a page; written and read by the same version
 * of qkv. Calls `pass` for all values of a scene in a fixed order, to pack a scene that was read, or to unpack one: then the
 * scene must be all zero at first, and its texts and matrices are allocated in the arena. An unpacked scene needs no check,
 * but has no paths and no places of keys, so a scene that names a run cannot be packed. False when `pass` returns false or
 * memory runs out. */
bool qkv_scene_pass(struct qkv_scene *scene, qkv_pass *pass, void *context, struct qkv_arena *arena);

/* ---- scene.c ---- */

/* As qkv_explain_scene, but computes in `dtype`. run: the run that the scene names, with the same dtype; NULL: none. */
enum qkv_status qkv_walk_scene(enum qkv_dtype dtype, const struct qkv_scene *scene, const struct qkv_run *run,
                               struct qkv_arena *arena, struct qkv_explanation *explanation,
                               struct qkv_error *error);
