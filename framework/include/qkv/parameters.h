/* The learned numbers of a model: named slices of one flat block, so that stepping, clipping, averaging and
 * saving are loops over one array. Declare all of them, then allocate once. */
#ifndef QKV_PARAMETERS_H
#define QKV_PARAMETERS_H

#include "qkv/arena.h"
#include "qkv/config.h"
#include "qkv/graph.h"

/* What a parameter holds before training: `kind` times `gain`.
 * Xavier (Glorot and Bengio 2010) for [fan_in, fan_out]: uniform in +-gain sqrt(6 / (fan_in + fan_out)), or
 * normal with the same variance. Uniform: in +-gain. Normal: standard deviation gain. Orthogonal, of [H, G
 * H]: G orthogonal matrices side by side, times gain (Saxe et al. 2014), drawn as Gram and Schmidt make them
 * of normal numbers. Forget, of the [4 H] biases of an LSTM: gain for the forget gates, the second H, else 0.
 */
struct qkv_initial {
    enum qkv_initializer kind;
    double gain;
};

/* One named slice. Offsets are in elements and keep each slice aligned to 64 bytes in float32. */
struct qkv_parameter {
    const char *name; /* "encoder.1.self.query.weight" */
    struct qkv_shape shape;
    int64_t index, offset, count;
    struct qkv_initial initial;
};

/* Caller's storage, all zero at first. */
struct qkv_parameters {
    enum qkv_dtype dtype;
    int64_t count, capacity;
    struct qkv_parameter **list;
    int64_t elements; /* of the flat block, the gaps of alignment included (they stay 0) */
    void *values;     /* [elements] of dtype; NULL before qkv_parameters_allocate */
    uint64_t changes; /* how often values were written, for those who keep copies (graph.h, panels): add 1
                         after writing to them otherwise than through this library, and while no graph runs */
    bool failed;      /* out of memory while declaring */
    double *square;   /* working space for the largest orthogonal matrix; NULL where there is none */
    struct qkv_arena arena;
};

/* Declares a parameter; the name is formatted. The pointer stays valid until release; NULL, stickily, when
 * memory is out. */
QKV_API const struct qkv_parameter *qkv_parameters_add(struct qkv_parameters *parameters,
                                                       struct qkv_shape shape, struct qkv_initial initial,
                                                       const char *name, ...) QKV_PRINTF(4, 5);

/* Makes the block of values, all zero. Fails only for lack of memory. */
QKV_API enum qkv_status qkv_parameters_allocate(struct qkv_parameters *parameters, enum qkv_dtype dtype,
                                                struct qkv_error *error);

/* Fills the values from the initialisers: a pure function of the seed and each parameter's index, the same in
 * both precisions but for rounding. */
QKV_API void qkv_parameters_initialize(struct qkv_parameters *parameters, uint64_t seed);

/* How many learned numbers there are (gaps not counted). */
QKV_API int64_t qkv_parameters_total(const struct qkv_parameters *parameters);

/* The parameter of that name, or NULL. */
QKV_API const struct qkv_parameter *qkv_parameters_find(const struct qkv_parameters *parameters,
                                                        const char *name);

/* Element `i` of a parameter, as a double; and writing it. */
QKV_API double qkv_parameter_get(const struct qkv_parameters *parameters,
                                 const struct qkv_parameter *parameter, int64_t i);
QKV_API void qkv_parameter_set(struct qkv_parameters *parameters, const struct qkv_parameter *parameter,
                               int64_t i, double value);

QKV_API void qkv_parameters_release(struct qkv_parameters *parameters);

#endif
