#include "browser.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

enum {
    SECONDS = 300 /* of patience: machines may be busy */,
    TO_BROWSER = 3,
    FROM_BROWSER = 4 /* descriptors */
};

/* The browser of this test. */
static struct {
    pid_t process;
    int to, from;
    int calls;              /* the number of the last call */
    char *target, *session; /* of the page */
    char *bytes;            /* received and not read yet */
    size_t size, capacity;
    char *problems;
} browser = {.problems = ""};

/* ---- messages: JSON, each with a NUL ---- */

static void note(const char *problem)
{
    browser.problems = format("%s%s\n", browser.problems, problem);
}

/* Keeps what an event says about errors and requests. */
static void read_event(const cJSON *message)
{
    const char *method = cJSON_GetStringValue(cJSON_GetObjectItem(message, "method"));
    const cJSON *what = cJSON_GetObjectItem(message, "params");
    if (!method) return;
    if (!strcmp(method, "Runtime.exceptionThrown") || !strcmp(method, "Log.entryAdded") ||
        !strcmp(method, "Runtime.consoleAPICalled"))
        note(cJSON_PrintUnformatted(what));
    const cJSON *request = cJSON_GetObjectItem(what, "request");
    const char *url = cJSON_GetStringValue(cJSON_GetObjectItem(request, "url"));
    if (!strcmp(method, "Network.requestWillBeSent") && url && strncmp(url, "file:", 5) != 0 &&
        strncmp(url, "blob:", 5) != 0 && strncmp(url, "data:", 5) != 0)
        note(url);
}

static cJSON *receive(void)
{
    for (;;) {
        char *end = browser.size ? memchr(browser.bytes, '\0', browser.size) : NULL;
        if (end) {
            cJSON *message = cJSON_Parse(browser.bytes);
            size_t used = (size_t)(end - browser.bytes) + 1;
            memmove(browser.bytes, browser.bytes + used, browser.size -= used);
            cr_assert_not_null(message, "the browser sends no JSON");
            return message;
        }
        struct pollfd input = {.fd = browser.from, .events = POLLIN};
        cr_assert_gt(poll(&input, 1, SECONDS * 1000), 0, "the browser does not answer within %d s", SECONDS);
        enum { CHUNK = 1 << 16 };
        if (browser.capacity - browser.size < CHUNK) {
            browser.capacity = 2 * browser.capacity + CHUNK;
            browser.bytes = realloc(browser.bytes, browser.capacity);
            cr_assert_not_null(browser.bytes);
        }
        ssize_t got = read(browser.from, browser.bytes + browser.size, CHUNK);
        cr_assert_gt(got, 0, "the browser has ended");
        browser.size += (size_t)got;
    }
}

/* Calls a method of the protocol; parameters: the inside of a JSON object. Returns the result, which the caller deletes. */
static cJSON *call(const char *method, const char *parameters)
{
    int number = ++browser.calls;
    const char *session = browser.session ? format(",\"sessionId\":\"%s\"", browser.session) : "";
    char *text =
        format("{\"id\":%d,\"method\":\"%s\",\"params\":{%s}%s}", number, method, parameters, session);
    for (size_t size = strlen(text) + 1, sent = 0; sent < size;) {
        ssize_t written = write(browser.to, text + sent, size - sent);
        cr_assert_gt(written, 0, "the browser has ended");
        sent += (size_t)written;
    }
    for (;;) {
        cJSON *message = receive(), *id = cJSON_GetObjectItem(message, "id");
        if (id && id->valueint == number) {
            cJSON *result = cJSON_DetachItemFromObject(message, "result");
            cr_assert_not_null(result, "%s: %s", text, cJSON_PrintUnformatted(message));
            cJSON_Delete(message);
            return result;
        }
        read_event(message);
        cJSON_Delete(message);
    }
}

static void command(const char *method, const char *parameters)
{
    cJSON_Delete(call(method, parameters));
}

static char *text_in(cJSON *result, const char *key)
{
    char *text = format("%s", cJSON_GetStringValue(cJSON_GetObjectItem(result, key)));
    cJSON_Delete(result);
    return text;
}

/* A text as JSON, with its quotes. */
static char *quoted(const char *text)
{
    cJSON *item RELEASED(free_json) = cJSON_CreateString(text);
    char *json = remember(cJSON_PrintUnformatted(item));
    return json;
}

/* ---- the browser ---- */

void skip_without_browser(void)
{
    skip_without_page();
    skip_without_program("chromium");
    if (is_sanitized()) cr_skip_test("sanitizers see nothing of a page; a release is tested in browsers");
}

/* In the child: makes the pipes the descriptors that Chromium expects, and becomes Chromium. */
static void become_browser(int from_test, int to_test, const char *profile)
{
    int input = fcntl(from_test, F_DUPFD, 10), output = fcntl(to_test, F_DUPFD, 10);
    int nowhere = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++) dup2(nowhere, i);
    dup2(input, TO_BROWSER);
    dup2(output, FROM_BROWSER);
    execlp("chromium", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
           "--disable-background-networking", "--disable-dev-shm-usage", "--remote-debugging-pipe",
           format("--user-data-dir=%s", profile), (char *)NULL);
    _exit(127);
}

static void start(const char *profile)
{
    int to[2], from[2];
    cr_assert(!pipe(to) && !pipe(from));
    browser.process = fork();
    cr_assert_geq(browser.process, 0);
    if (browser.process == 0) become_browser(to[0], from[1], profile);
    close(to[0]);
    close(from[1]);
    browser.to = to[1];
    browser.from = from[0];
    signal(SIGPIPE, SIG_IGN);
}

/* Closes the page before, whose window, overrides and worker a new one does not have. */
static void open_tab(void)
{
    char *before = browser.target;
    browser.session = NULL;
    browser.target = text_in(call("Target.createTarget", "\"url\":\"about:blank\""), "targetId");
    if (before) command("Target.closeTarget", format("\"targetId\":\"%s\"", before));
    browser.session =
        text_in(call("Target.attachToTarget", format("\"targetId\":\"%s\",\"flatten\":true", browser.target)),
                "sessionId");
    static const char *const domains[] = {"Page", "Runtime", "Log", "Network"};
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        command(format("%s.enable", domains[i]), "");
}

static void set_size(int width, int height)
{
    command("Emulation.setDeviceMetricsOverride",
            format("\"width\":%d,\"height\":%d,\"deviceScaleFactor\":1,\"mobile\":false", width, height));
}

void browser_open(const char *arguments, const char *fragment)
{
    skip_without_browser();
    run_ok("qkv page %s", arguments);
    char folder[4096];
    cr_assert_not_null(getcwd(folder, sizeof folder));
    if (!browser.process) start(format("%s/profile", folder));
    open_tab();
    set_size(1280, 1400);
    command("Page.navigate",
            format("\"url\":%s", quoted(format("file://%s/page.html#%s", folder, fragment))));
    wait_until("state.view && isSettled()");
}

void browser_open_run(const char *training, const char *options, const char *fragment)
{
    skip_without_browser();
    run_ok("test -d run || qkv train c.yaml --quiet --threads 1 %s", training);
    browser_open(format("run %s", options), fragment);
}

void browser_close(void)
{
    cr_expect_str_empty(browser.problems);
    close(browser.to); /* Chromium ends with its pipe */
    close(browser.from);
    kill(browser.process, SIGTERM);
    waitpid(browser.process, NULL, 0);
    free(browser.bytes);
}

void resize_to(int width, int height)
{
    set_size(width, height);
    wait_until("innerWidth === %d && innerHeight === %d && isSettled()", width, height);
}

void resize(int width)
{
    resize_to(width, 1400);
}

/* ---- what the page has ---- */

/* Formats the arguments from `last` on. */
#define FORMAT_INTO(text, last)                                                                              \
    va_list arguments;                                                                                       \
    va_start(arguments, last);                                                                               \
    char *text = vformat(last, arguments);                                                                   \
    va_end(arguments)

/* The value of an expression, in which the names of browser.h are known. */
static char *evaluate(const char *expression)
{
    static const char names[] =
        "const at = name => document.querySelector(`[data-test=\"${name}\"]`), first = selector => "
        "document.querySelector(selector), all = selector => [...document.querySelectorAll(selector)], count "
        "= selector => all(selector).length, textOf = element => element.textContent, boxOf = element => "
        "element.getBoundingClientRect(), stepOf = name => state.walk.find(step => step.name === name), "
        "focused = () => (({ dataset, id, tagName, parentElement }) => dataset.test || id || "
        "`${tagName.toLowerCase()} of ${parentElement?.closest('[id]')?.id}`)(document.activeElement);";
    cJSON *answer =
        call("Runtime.evaluate",
             format("\"expression\":%s,\"awaitPromise\":true,\"returnByValue\":true",
                    quoted(format("(async () => { %s return String(await (%s)); })()", names, expression))));
    const cJSON *exception = cJSON_GetObjectItem(answer, "exceptionDetails");
    cr_assert_null(exception, "%s: %s", expression, cJSON_PrintUnformatted(exception));
    cJSON *result = cJSON_DetachItemFromObject(answer, "result");
    cJSON_Delete(answer);
    return text_in(result, "value");
}

char *value_of(const char *expression, ...)
{
    FORMAT_INTO(text, expression);
    return evaluate(text);
}

double number_of(const char *expression, ...)
{
    FORMAT_INTO(text, expression);
    return atof(evaluate(text));
}

/* Waits until the page shows the answer to what it was asked for last. */
static void settle(void)
{
    wait_until("isSettled()");
}

void run_script(const char *script, ...)
{
    FORMAT_INTO(text, script);
    evaluate(format("void (%s)", text));
    settle();
}

char *text_of(const char *name)
{
    return value_of("at('%s').textContent", name);
}

void expect_printed(const char *name, const char *command, ...)
{
    FORMAT_INTO(text, command);
    cr_expect_str_eq(format("%s\n", text_of(name)), run_ok("%s", text), "%s of %s", name, text);
}

void expect_attention(double tolerance, const char *arguments)
{
    run_script("wanted = %s", run_ok("qkv attention run %s -q -f json", arguments));
    double difference = number_of(
        "Math.max(Math.abs(wanted.maps.length - state.view.heads.length), ...wanted.maps.map(({ kind, layer, "
        "head, weights }) => { const shown = state.view.heads.find(({ name }) => name === "
        "`${kind}-${layer}-${head}`), all = weights.flat(); return all.length === shown.weights.length ? "
        "Math.max(...all.map((weight, i) => Math.abs(weight - Math.max(0, shown.weights[i])))) : 9; }))");
    cr_expect_lt(difference, tolerance, "%s: %g", arguments, difference);
}

bool has_value(const char *expression, const char *expected)
{
    char *value = evaluate(expression);
    bool is_right = !strcmp(value, expected);
    if (!is_right) fprintf(stderr, "%s\nis %s\nnot %s\n", expression, value, expected);
    return is_right;
}

void wait_until(const char *expression, ...)
{
    FORMAT_INTO(text, expression);
    /* While the page loads, the expression may name what is not there yet. */
    char *promise = format("new Promise(resolve => { const end = Date.now() + %d; (function look() { let "
                           "found; try { found = %s; } catch { found = false; } if (found || Date.now() > "
                           "end) resolve(Boolean(found)); else setTimeout(look, 10); })(); })",
                           SECONDS / 2 * 1000, text);
    cr_assert_str_eq(evaluate(promise), "true", "never true: %s\n%s", text, browser.problems);
}

/* ---- pointer and keyboard ---- */

static void mouse(const char *name, const char *type, const char *more)
{
    char *place = value_of("(element => { element.scrollIntoView({block: 'nearest'}); const box = "
                           "element.getBoundingClientRect(); return '\"x\":' + (box.left + box.right) / 2 + "
                           "',\"y\":' + (box.top + box.bottom) / 2; })(at('%s'))",
                           name);
    command("Input.dispatchMouseEvent", format("\"type\":\"%s\",%s%s", type, place, more));
}

void point_at(const char *name, ...)
{
    FORMAT_INTO(text, name);
    mouse(text, "mouseMoved", "");
}

void click(const char *name, ...)
{
    FORMAT_INTO(text, name);
    const char *button = ",\"button\":\"left\",\"clickCount\":1";
    mouse(text, "mouseMoved", "");
    mouse(text, "mousePressed", button);
    mouse(text, "mouseReleased", button);
    settle();
}

void choose(const char *id, const char *value)
{
    run_script("element('%s').value = `%s`, ['input', 'change'].forEach(type => "
               "element('%s').dispatchEvent(new Event(type)))",
               id, value, id);
}

void type_text(const char *text)
{
    command("Input.insertText", format("\"text\":%s", quoted(text)));
    settle();
}

void compose(const char *text)
{
    command("Input.imeSetComposition",
            format("\"text\":%s,\"selectionStart\":0,\"selectionEnd\":0", quoted(text)));
}

/* What a key makes the browser do by itself depends on its code; keys that type have a text. */
static const struct key {
    const char *name;
    int code;
    const char *text;
} KEYS[] = {{"Tab", 9, ""},         {"Enter", 13, "\r"},  {"Escape", 27, ""},    {"Space", 32, " "},
            {"End", 35, ""},        {"Home", 36, ""},     {"ArrowLeft", 37, ""}, {"ArrowUp", 38, ""},
            {"ArrowRight", 39, ""}, {"ArrowDown", 40, ""}};

static void press_key(const char *name)
{
    struct key key = {name, 0, ""};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (!strcmp(KEYS[i].name, name)) key = KEYS[i];
    if (!strcmp(name, "Space")) name = key.text;
    const char *code = key.code ? format(",\"windowsVirtualKeyCode\":%d", key.code) : "";
    const char *text = *key.text ? format(",\"text\":%s", quoted(key.text)) : "";
    command("Input.dispatchKeyEvent",
            format("\"type\":\"%s\",\"key\":\"%s\"%s%s", *text ? "keyDown" : "rawKeyDown", name, code, text));
    command("Input.dispatchKeyEvent", format("\"type\":\"keyUp\",\"key\":\"%s\"%s", name, code));
}

void press(const char *names)
{
    char *rest = NULL;
    for (char *name = strtok_r(format("%s", names), " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        press_key(name);
    settle();
}
