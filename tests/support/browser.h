/* A page in Chromium without a window, driven through the DevTools protocol over a pipe: no server, no network. What the
 * pointer and the keyboard do are real events of the browser. A test has one browser, and in it one page. Every function fails
 * the test if the browser does not answer. In expressions, at(NAME) is the element with this data-test attribute,
 * first(SELECTOR) an element, all(SELECTOR) a list of them and count(SELECTOR) how many there are, textOf(ELEMENT) its text and
 * boxOf(ELEMENT) its place in the window, stepOf(NAME) a step of the walk, and focused() the name of the element with the
 * focus: data-test, or else its id. What ends with `...` is formatted like printf. Scripts, clicks, keys
 * and choices end when the page shows the answer to what they asked for (isSettled). */
#pragma once

#include "support.h"

#define FORMATTED __attribute__((format(printf, 1, 2)))

/* Skips the test where this build has no page or this machine no Chromium: call it before what takes time. */
void skip_without_browser(void);

/* Makes page.html in the current folder by `qkv page` with these arguments, opens it with what follows `#` in its address, and
 * waits until it shows its sentence. Closes the page before. */
void browser_open(const char *arguments, const char *fragment);

/* Trains c.yaml of the current folder with these settings, unless its run is there, and opens the page that `qkv page run`
 * makes with these options. */
void browser_open_run(const char *training, const char *options, const char *fragment);

/* Ends the browser. Fails the test if there were errors or warnings on the console, or addresses that were asked for beyond the
 * file itself. */
void browser_close(void);

/* A test that ends with browser_close, as Criterion counts no failure of a .fini. */
#define PageTest(suite, name)                                                                                \
    static void suite##_##name(void);                                                                        \
    Test(suite, name)                                                                                        \
    {                                                                                                        \
        suite##_##name();                                                                                    \
        browser_close();                                                                                     \
    }                                                                                                        \
    static void suite##_##name(void)

/* Makes the window so many pixels wide and high; 1400 high if nothing else is said. */
void resize_to(int width, int height);
void resize(int width);

/* The value of an expression in the page as text or as a number, and the text of an element with a data-test attribute. The
 * texts live until the test ends. */
char *value_of(const char *expression, ...) FORMATTED;
double number_of(const char *expression, ...) FORMATTED;
char *text_of(const char *name);

/* Expects the text of an element to be the line that a command prints. */
void expect_printed(const char *name, const char *command, ...) __attribute__((format(printf, 2, 3)));

/* Expects all maps of the page to be those of `qkv attention run` with these arguments, whose JSON becomes `wanted`. */
void expect_attention(double tolerance, const char *arguments);

/* Evaluates an expression for what it does, without its promises. */
void run_script(const char *script, ...) FORMATTED;

/* Whether an expression has a value; prints both if not. */
bool has_value(const char *expression, const char *expected);
#define EXPECT_VALUE(expression, expected) cr_expect(has_value(expression, expected))
#define EXPECT_TRUE(expression)            EXPECT_VALUE(expression, "true")
#define EXPECT_TEXT(name, expected)        EXPECT_VALUE("at('" name "').textContent", expected)
#define EXPECT_FOCUS(name)                 EXPECT_VALUE("focused()", name)

/* Waits until an expression is true; fails the test after some minutes. */
void wait_until(const char *expression, ...) FORMATTED;

/* Moves the pointer to the middle of the element with this data-test attribute; also presses the button there. */
void point_at(const char *name, ...) FORMATTED;
void click(const char *name, ...) FORMATTED;

/* Gives the field with this id a value and tells the page, as its user would by leaving it. */
void choose(const char *id, const char *value);

/* Types into the element that has the focus. */
void type_text(const char *text);

/* Composes text in the element that has the focus, as an input method does before the reader has chosen what it stands for. */
void compose(const char *text);

/* Presses keys by their names: "ArrowRight ArrowRight Enter". */
void press(const char *names);
