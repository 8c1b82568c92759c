/* Expectations of calls that fill in a qkv_error. */
#ifndef TESTS_REFUSAL_H
#define TESTS_REFUSAL_H

#include "qkv/base.h"

#include <criterion/criterion.h>
#include <string.h>

/* The call succeeded: here the test ends if it did not. */
static inline void expect_done(enum qkv_status status, const struct qkv_error *error)
{
    cr_assert_eq(status, QKV_OK, "status %d: %s", (int)status, error->message);
}

/* The call was refused with exactly this message. */
static inline void expect_refusal(enum qkv_status status, const struct qkv_error *error, const char *message)
{
    cr_expect(status == QKV_INVALID && !strcmp(error->message, message), "status %d: '%s', but wanted '%s'",
              (int)status, error->message, message);
}

/* The call was refused with a message that has this part. */
static inline void expect_refusal_with(enum qkv_status status, const struct qkv_error *error,
                                       const char *part)
{
    cr_expect(status == QKV_INVALID && strstr(error->message, part), "status %d: '%s' lacks '%s'",
              (int)status, error->message, part);
}

/* The status of a function that returns NULL (or false) where it refuses. */
#define STATUS_OF(result) ((result) ? QKV_OK : QKV_INVALID)

#endif
