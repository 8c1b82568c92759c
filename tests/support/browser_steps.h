/* The steps that a page shows against those that `qkv explain` prints. */
#ifndef QKV_TESTS_BROWSER_STEPS_H
#define QKV_TESTS_BROWSER_STEPS_H

#include "browser.h"

/* Fails the test unless the page's walk has the steps of the first explanation in the JSON of `qkv explain`: the same names, and
 * numbers that differ by less than `tolerance`; numbers beyond 1 by that share. `label` says in messages what is walked through. */
void expect_steps(const char *json, const char *label, double tolerance);

#endif
