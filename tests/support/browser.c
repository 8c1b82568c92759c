#include "browser.h"

#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SECONDS = 300 /* of patience: machines may be busy */,
    TO_BROWSER = 3,
    FROM_BROWSER = 4 /* descriptors */
};

struct browser {
    pid_t process;
    int to, from;
    int calls; /* the number of the last call */
    char *session;
    char *bytes; /* received and not read yet */
    size_t size, capacity;
    char *problems;
};

bool browser_exists(void)
{
    return run("command -v chromium").exit_code == 0;
}

/* ---- messages: JSON, each with a NUL ---- */

static void note(struct browser *browser, const char *problem)
{
    browser->problems = format("%s%s\n", browser->problems, problem);
}

/* Keeps what an event says about errors and requests. */
static void read_event(struct browser *browser, const cJSON *message)
{
    const char *method = cJSON_GetStringValue(cJSON_GetObjectItem(message, "method"));
    const cJSON *what = cJSON_GetObjectItem(message, "params");
    if (!method) return;
    if (!strcmp(method, "Runtime.exceptionThrown") || !strcmp(method, "Log.entryAdded") ||
        !strcmp(method, "Runtime.consoleAPICalled"))
        note(browser, cJSON_PrintUnformatted(what));
    const cJSON *request = cJSON_GetObjectItem(what, "request");
    const char *url = cJSON_GetStringValue(cJSON_GetObjectItem(request, "url"));
    if (!strcmp(method, "Network.requestWillBeSent") && url && strncmp(url, "file:", 5) != 0 &&
        strncmp(url, "blob:", 5) != 0 && strncmp(url, "data:", 5) != 0)
        note(browser, url);
}

static cJSON *receive(struct browser *browser)
{
    for (;;) {
        char *end = browser->size ? memchr(browser->bytes, '\0', browser->size) : NULL;
        if (end) {
            cJSON *message = cJSON_Parse(browser->bytes);
            size_t used = (size_t)(end - browser->bytes) + 1;
            memmove(browser->bytes, browser->bytes + used, browser->size -= used);
            cr_assert_not_null(message, "the browser sends no JSON");
            return message;
        }
        struct pollfd input = {.fd = browser->from, .events = POLLIN};
        cr_assert_gt(poll(&input, 1, SECONDS * 1000), 0, "the browser does not answer within %d s", SECONDS);
        enum { CHUNK = 1 << 16 };
        if (browser->capacity - browser->size < CHUNK) {
            browser->capacity = 2 * browser->capacity + CHUNK;
            browser->bytes = realloc(browser->bytes, browser->capacity);
            cr_assert_not_null(browser->bytes);
        }
        ssize_t got = read(browser->from, browser->bytes + browser->size, CHUNK);
        cr_assert_gt(got, 0, "the browser has ended");
        browser->size += (size_t)got;
    }
}

/* Calls a method of the protocol; parameters: the inside of a JSON object. Returns the result, which the caller deletes. */
static cJSON *call(struct browser *browser, const char *method, const char *parameters)
{
    int number = ++browser->calls;
    const char *session = browser->session ? format(",\"sessionId\":\"%s\"", browser->session) : "";
    char *text =
        format("{\"id\":%d,\"method\":\"%s\",\"params\":{%s}%s}", number, method, parameters, session);
    for (size_t size = strlen(text) + 1, sent = 0; sent < size;) {
        ssize_t written = write(browser->to, text + sent, size - sent);
        cr_assert_gt(written, 0, "the browser has ended");
        sent += (size_t)written;
    }
    for (;;) {
        cJSON *message = receive(browser), *id = cJSON_GetObjectItem(message, "id");
        if (id && id->valueint == number) {
            cJSON *result = cJSON_DetachItemFromObject(message, "result");
            cr_assert_not_null(result, "%s: %s", text, cJSON_PrintUnformatted(message));
            cJSON_Delete(message);
            return result;
        }
        read_event(browser, message);
        cJSON_Delete(message);
    }
}

static void command(struct browser *browser, const char *method, const char *parameters)
{
    cJSON_Delete(call(browser, method, parameters));
}

static char *text_of(cJSON *result, const char *key)
{
    char *text = format("%s", cJSON_GetStringValue(cJSON_GetObjectItem(result, key)));
    cJSON_Delete(result);
    return text;
}

/* A text as JSON, with its quotes. */
static char *quoted(const char *text)
{
    cJSON *item = cJSON_CreateString(text);
    char *json = remember(cJSON_PrintUnformatted(item));
    cJSON_Delete(item);
    return json;
}

/* ---- the browser ---- */

/* In the child: makes the pipes the descriptors that Chromium expects, and becomes Chromium. */
static void become_browser(int from_test, int to_test, const char *folder)
{
    int input = fcntl(from_test, F_DUPFD, 10), output = fcntl(to_test, F_DUPFD, 10);
    int nowhere = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++) dup2(nowhere, i);
    dup2(input, TO_BROWSER);
    dup2(output, FROM_BROWSER);
    execlp("chromium", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
           "--disable-background-networking", "--disable-dev-shm-usage", "--remote-debugging-pipe",
           format("--user-data-dir=%s/profile", folder), (char *)NULL);
    _exit(127);
}

struct browser *browser_open(const char *folder, const char *path, const char *fragment)
{
    struct browser *browser = remember(calloc(1, sizeof *browser));
    int to[2], from[2];
    cr_assert(browser && !pipe(to) && !pipe(from));
    browser->problems = format("%s", "");
    browser->process = fork();
    cr_assert_geq(browser->process, 0);
    if (browser->process == 0) become_browser(to[0], from[1], folder);
    close(to[0]);
    close(from[1]);
    browser->to = to[1];
    browser->from = from[0];
    signal(SIGPIPE, SIG_IGN);
    char *target = text_of(call(browser, "Target.createTarget", "\"url\":\"about:blank\""), "targetId");
    browser->session = text_of(
        call(browser, "Target.attachToTarget", format("\"targetId\":\"%s\",\"flatten\":true", target)),
        "sessionId");
    static const char *const domains[] = {"Page", "Runtime", "Log", "Network"};
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        command(browser, format("%s.enable", domains[i]), "");
    browser_resize(browser, 1280);
    command(browser, "Page.navigate", format("\"url\":%s", quoted(format("file://%s#%s", path, fragment))));
    return browser;
}

void browser_resize(struct browser *browser, int width)
{
    command(browser, "Emulation.setDeviceMetricsOverride",
            format("\"width\":%d,\"height\":1400,\"deviceScaleFactor\":1,\"mobile\":false", width));
}

char *browser_value(struct browser *browser, const char *expression)
{
    cJSON *answer = call(browser, "Runtime.evaluate",
                         format("\"expression\":%s,\"awaitPromise\":true,\"returnByValue\":true",
                                quoted(format("(async () => String(await (%s)))()", expression))));
    const cJSON *exception = cJSON_GetObjectItem(answer, "exceptionDetails");
    cr_assert_null(exception, "%s: %s", expression, cJSON_PrintUnformatted(exception));
    cJSON *result = cJSON_DetachItemFromObject(answer, "result");
    cJSON_Delete(answer);
    return text_of(result, "value");
}

void browser_wait(struct browser *browser, const char *expression)
{
    /* While the page loads, the expression may name what is not there yet. */
    char *promise =
        format("new Promise(resolve => { const end = Date.now() + %d; (function look() { let found; "
               "try { found = %s; } catch { found = false; } "
               "if (found || Date.now() > end) resolve(Boolean(found)); else setTimeout(look, 10); })(); })",
               SECONDS / 2 * 1000, expression);
    cr_assert_str_eq(browser_value(browser, promise), "true", "never true: %s\n%s", expression,
                     browser->problems);
}

static void mouse(struct browser *browser, const char *name, const char *type, const char *more)
{
    char *at = browser_value(
        browser, format("(() => { const element = document.querySelector('[data-test=\"%s\"]'); "
                        "element.scrollIntoView({block: 'nearest'}); "
                        "const box = element.getBoundingClientRect(); return '\"x\":' + "
                        "(box.left + box.right) / 2 + ',\"y\":' + (box.top + box.bottom) / 2; })()",
                        name));
    command(browser, "Input.dispatchMouseEvent", format("\"type\":\"%s\",%s%s", type, at, more));
}

void browser_point(struct browser *browser, const char *name)
{
    mouse(browser, name, "mouseMoved", "");
}

void browser_click(struct browser *browser, const char *name)
{
    const char *button = ",\"button\":\"left\",\"clickCount\":1";
    browser_point(browser, name);
    mouse(browser, name, "mousePressed", button);
    mouse(browser, name, "mouseReleased", button);
}

void browser_type(struct browser *browser, const char *text)
{
    command(browser, "Input.insertText", format("\"text\":%s", quoted(text)));
}

void browser_compose(struct browser *browser, const char *text)
{
    command(browser, "Input.imeSetComposition",
            format("\"text\":%s,\"selectionStart\":0,\"selectionEnd\":0", quoted(text)));
}

/* What a key makes the browser do by itself depends on its code; keys that type have a text. */
static const struct key {
    const char *name;
    int code;
    const char *text;
} KEYS[] = {{"Tab", 9, ""},         {"Enter", 13, "\r"},  {"Escape", 27, ""},    {" ", 32, " "},
            {"End", 35, ""},        {"Home", 36, ""},     {"ArrowLeft", 37, ""}, {"ArrowUp", 38, ""},
            {"ArrowRight", 39, ""}, {"ArrowDown", 40, ""}};

void browser_press(struct browser *browser, const char *name)
{
    struct key key = {name, 0, ""};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (!strcmp(KEYS[i].name, name)) key = KEYS[i];
    const char *code = key.code ? format(",\"windowsVirtualKeyCode\":%d", key.code) : "";
    const char *text = *key.text ? format(",\"text\":%s", quoted(key.text)) : "";
    command(browser, "Input.dispatchKeyEvent",
            format("\"type\":\"%s\",\"key\":\"%s\"%s%s", *text ? "keyDown" : "rawKeyDown", name, code, text));
    command(browser, "Input.dispatchKeyEvent", format("\"type\":\"keyUp\",\"key\":\"%s\"%s", name, code));
}

void browser_close(struct browser *browser)
{
    cr_expect_str_empty(browser->problems);
    close(browser->to); /* Chromium ends with its pipe */
    close(browser->from);
    kill(browser->process, SIGTERM);
    waitpid(browser->process, NULL, 0);
    free(browser->bytes);
}

/* ---- pages of runs ---- */

void skip_without_browser(void)
{
    if (!has_page())
        cr_skip_test("this build has no page: it needs clang for WebAssembly and the source of utf8proc");
    if (!browser_exists()) cr_skip_test("this machine has no chromium, in which the page is tested");
    if (is_sanitized()) cr_skip_test("sanitizers see nothing of a page; a release is tested in browsers");
}

struct browser *browser_open_page(const char *folder, const char *fragment)
{
    skip_without_browser();
    struct browser *browser = browser_open(folder, format("%s/page.html", folder), fragment);
    browser_wait(browser, "state.view && isSettled()");
    return browser;
}

struct browser *browser_open_run(const char *folder, const char *options, const char *fragment)
{
    skip_without_browser();
    run_ok("cd '%s' && test -f page.html || { qkv train c.yaml --quiet --threads 1 && qkv page run %s; }",
           folder, options);
    return browser_open_page(folder, fragment);
}

char *browser_text(struct browser *browser, const char *name)
{
    return browser_value(browser, format("document.querySelector('[data-test=\"%s\"]').textContent", name));
}
