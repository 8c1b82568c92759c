/* The parameters of a model: named slices of one flat block, so that optimizer steps, clipping, averaging and
 * saving are loops over one array. Declare all parameters, then allocate once.
 *
 * Example:
 *     struct qkv_parameters parameters = {0};
 *     struct qkv_initial xavier = {QKV_INITIALIZER_XAVIER_UNIFORM, 1};
 *     const struct qkv_parameter *weight =
 *         qkv_parameters_add(&parameters, QKV_SHAPE(4, 2), xavier, "layer.%d.weight", 1);
 *     if (!qkv_parameters_allocate(&parameters, QKV_FLOAT32, NULL)) {
 *         qkv_parameters_initialize(&parameters, 42);
 *         printf("%s starts with %g\n", weight->name, qkv_parameter_get(&parameters, weight, 0));
 *     }
 *     qkv_parameters_release(&parameters);
 *
 * To compute with parameters, bind them to a graph: qkv_graph_bind, qkv_graph_parameter (graph.h). To save them, and to load
 * them from a file of qkv or of another program, by name: qkv_checkpoint_save, qkv_parameters_load (checkpoint.h). */
#ifndef QKV_PARAMETERS_H
#define QKV_PARAMETERS_H

#include "qkv/arena.h"
#include "qkv/choices.h"
#include "qkv/graph.h"
#include "qkv/precision.h"

/* Distribution of the initial values, scaled by `gain`:
 * - Xavier (Glorot and Bengio 2010) of [fan_in, fan_out]: uniform in +-sqrt(6 / (fan_in + fan_out)), or normal with
 *   the same variance;
 * - uniform in +-1; normal with standard deviation 1; zeros; ones, which ignores the gain;
 * - orthogonal (Saxe et al. 2014) of [n, k n]: k random orthogonal [n, n] matrices side by side;
 * - forget, of the [4 n] biases of an LSTM of width n: 1 for the biases of the forget gates (the second n), else 0. */
struct qkv_initial {
    enum qkv_initializer kind;
    double gain;
};

/* One named slice. Slices are aligned to 64 bytes in float32. */
struct qkv_parameter {
    const char *name; /* "encoder.1.self.query.weight" */
    struct qkv_shape shape;
    int64_t index;         /* in the list */
    int64_t offset, count; /* elements within the block */
    struct qkv_initial initial;
    bool is_table; /* a matrix whose rows are looked up by index */
    double rate;   /* factor of its learning rate, 1 at first; 0: frozen */
};

/* Caller's storage, all zero at first. */
struct qkv_parameters {
    enum qkv_dtype dtype;
    int64_t count, capacity;
    struct qkv_parameter **list;
    int64_t elements; /* of the block, with the gaps between aligned slices, which stay 0 */
    void *values;     /* [elements] of dtype; NULL before qkv_parameters_allocate */
    /* Number of writes to `values`. When it has changed, copies of the values (qkv_panels) are out of date, and qkv_backward
     * refuses what qkv_forward has computed with the old ones. Write to `values` directly only while no graph runs, and add
     * 1 afterwards. */
    uint64_t changes;
    enum qkv_precision
        products;             /* precision of linear layers' products; set by qkv_parameters_set_precision */
    bool failed;              /* a declaration was refused, or memory ran out while declaring */
    struct qkv_error error;   /* the first reason for that; empty: memory */
    double *square;           /* workspace for the largest orthogonal matrix; NULL if there is none */
    struct qkv_table *tables; /* constants of layers, such as sinusoids; NULL: none */
    struct qkv_arena arena;
};

/* Declares a parameter; the name is a printf format. The result is valid until release. NULL when memory runs out, the name
 * is empty, longer than 255 bytes or declared already (a checkpoint finds parameters by name) or begins with `__` or
 * `optimizer.` (names that checkpoints use), the shape is invalid (or not [n, k n] for orthogonal values), the initializer
 * is unknown or its gain is not finite, or the call comes after qkv_parameters_allocate. The parameters have then failed: qkv_parameters_allocate
 * returns the first such error, and qkv_graph_bind refuses them. */
QKV_API const struct qkv_parameter *qkv_parameters_add(struct qkv_parameters *parameters,
                                                       struct qkv_shape shape, struct qkv_initial initial,
                                                       const char *name, ...) QKV_PRINTF(4, 5);

/* Marks a declared matrix as an embedding table, whose rows are looked up by index. int8 then uses one scale per row
 * instead of one per column. Does nothing for NULL and for a parameter of another block. */
QKV_API void qkv_parameters_mark_table(struct qkv_parameters *parameters, const struct qkv_parameter *table);

/* Allocates the block of values, all zero. Fails when a declaration failed, when memory runs out, and at a second call. */
QKV_API enum qkv_status qkv_parameters_allocate(struct qkv_parameters *parameters, enum qkv_dtype dtype,
                                                struct qkv_error *error);

/* Sets all values to their initial distribution: a pure function of the seed and each parameter's index, equal in
 * both precisions up to rounding. */
QKV_API void qkv_parameters_initialize(struct qkv_parameters *parameters, uint64_t seed);

/* Sets the rates of parameters by name: `rates` is "PATTERN=FACTOR ..." with white space between, such as "encoder.*=0.1
 * output.bias=0". In a pattern, * matches any text and ? any character (fnmatch); if several patterns match a name, the
 * last one counts. A parameter with the factor 0 is frozen: graphs compute no gradient for it, nor for nodes that depend on
 * frozen parameters and constants alone; optimizers do not change it, and it does not count in the norm of the gradient.
 * qkv_optimizer_init reads the rates. Fails, and changes no rate, if a pattern matches no parameter, a factor is not a
 * number of at least 0, every parameter would be frozen, or memory runs out. */
QKV_API enum qkv_status qkv_parameters_set_rates(struct qkv_parameters *parameters, const char *rates,
                                                 struct qkv_error *error);

/* Sets the precision in which graphs multiply by these parameters. int8: rounds the matrices in place, which cannot be
 * undone; from then on gradients are refused, even by a graph to which the parameters are already bound, as soon as it is
 * built again. float32: products are float32 and use the current contents of the matrices. Fails if the parameters are not
 * allocated, if they are float64 and the precision is not float32, or if they are not finite and it is int8. Call it before
 * building graphs that use the parameters. */
QKV_API enum qkv_status qkv_parameters_set_precision(struct qkv_parameters *parameters,
                                                     enum qkv_precision precision, struct qkv_error *error);

/* The number of parameters, without the gaps, and the number of them that are frozen. */
QKV_API int64_t qkv_parameters_total(const struct qkv_parameters *parameters);
QKV_API int64_t qkv_parameters_frozen(const struct qkv_parameters *parameters);

/* The parameter of that name, or NULL. */
QKV_API const struct qkv_parameter *qkv_parameters_find(const struct qkv_parameters *parameters,
                                                        const char *name);

/* The first parameter whose slice of `block` (values, gradients or moments, laid out as the values) holds an
 * infinity or NaN; NULL if none does. */
QKV_API const struct qkv_parameter *qkv_parameters_find_not_finite(const struct qkv_parameters *parameters,
                                                                   const void *block);

/* Reads or writes element i, row-major; writing adds 1 to `changes`. If the block has no such element, reading returns NaN
 * and writing does nothing. */
QKV_API double qkv_parameter_get(const struct qkv_parameters *parameters,
                                 const struct qkv_parameter *parameter, int64_t i);
QKV_API void qkv_parameter_set(struct qkv_parameters *parameters, const struct qkv_parameter *parameter,
                               int64_t i, double value);

QKV_API void qkv_parameters_release(struct qkv_parameters *parameters);

#endif
