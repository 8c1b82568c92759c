/* A page in Chromium without a window, driven through the DevTools protocol over a pipe: no server, no network. What the
 * pointer and the keyboard do are real events of the browser. Every function fails the test if the browser does not
 * answer. */
#ifndef QKV_TESTS_BROWSER_H
#define QKV_TESTS_BROWSER_H

#include <stdbool.h>

struct browser;

/* Whether this machine has Chromium. */
bool browser_exists(void);

/* Starts a browser whose profile is in `folder`, and opens a file at `path` with what follows `#` in its address. */
struct browser *browser_open(const char *folder, const char *path, const char *fragment);

/* Opens `folder`/page.html, which `qkv page` has made, and waits until it shows its sentence. Skips the test where this build
 * has no page or this machine no Chromium: call skip_without_browser before what takes time. */
struct browser *browser_open_page(const char *folder, const char *fragment);
void skip_without_browser(void);

/* Trains folder/c.yaml, makes the page of its run with these options of `qkv page`, both once for a folder, and opens it. */
struct browser *browser_open_run(const char *folder, const char *options, const char *fragment);

/* Makes the window so many pixels wide. */
void browser_resize(struct browser *browser, int width);

/* The value of an expression in the page as text. The text lives until the test ends. */
char *browser_value(struct browser *browser, const char *expression);

/* Waits until an expression is true; fails the test after some minutes. */
void browser_wait(struct browser *browser, const char *expression);

/* Moves the pointer to the middle of the element with this data-test attribute; also presses the button there. */
void browser_point(struct browser *browser, const char *name);
void browser_click(struct browser *browser, const char *name);

/* Types into the element that has the focus. */
void browser_type(struct browser *browser, const char *text);

/* Composes text in the element that has the focus, as an input method does before the reader has chosen what it stands for. */
void browser_compose(struct browser *browser, const char *text);

/* Presses a key by its name: "ArrowRight". */
void browser_press(struct browser *browser, const char *name);

/* The text of the element with this data-test attribute. */
char *browser_text(struct browser *browser, const char *name);

/* Fails the test if there were errors or warnings on the console, or addresses that were asked for beyond the file itself. */
void browser_close(struct browser *browser);

#endif
