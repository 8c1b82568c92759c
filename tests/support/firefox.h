/* A page in Firefox without a window, driven through Marionette, its own protocol over a local socket. What a test does are
 * real events of the browser; what it reads is in the document, as scripts do not see the names of the page. Every function
 * fails the test if the browser does not answer. */
#pragma once

#include "support.h"

struct firefox;

/* Skips the test where this machine has no Firefox. */
void skip_without_firefox(void);

/* Starts a browser whose new profile is in `folder`, and opens a file at `path` with what follows `#` in its address. */
struct firefox *firefox_open(const char *folder, const char *path, const char *fragment);

/* The value of an expression as text; `at` in it is a function: the element with a data-test attribute. The text lives until
 * the test ends. */
char *firefox_value(struct firefox *firefox, const char *expression);

/* Waits until an expression is true; fails the test after some minutes. */
void firefox_wait(struct firefox *firefox, const char *expression);

/* Clicks on the element with this data-test attribute. */
void firefox_click(struct firefox *firefox, const char *name);

/* Types into that element; keys such as arrows are characters of WebDriver: "\ue012" in UTF-8 is the left arrow. */
void firefox_type(struct firefox *firefox, const char *name, const char *keys);

void firefox_close(struct firefox *firefox);
