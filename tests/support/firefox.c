#include "firefox.h"

#include "json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { SECONDS = 300, REPLY = 1 };

struct firefox {
    pid_t process;
    int socket;
    int calls; /* the number of the last call */
};

void skip_without_firefox(void)
{
    skip_without_page();
    skip_without_program("firefox-esr");
    if (is_sanitized()) cr_skip_test("sanitizers see nothing of a page; a release is tested in browsers");
}

/* ---- messages: their length, a colon, and JSON ---- */

static void receive_bytes(struct firefox *firefox, char *bytes, size_t size)
{
    for (size_t received = 0; received < size;) {
        struct pollfd input = {.fd = firefox->socket, .events = POLLIN};
        cr_assert_gt(poll(&input, 1, SECONDS * 1000), 0, "Firefox does not answer within %d s", SECONDS);
        ssize_t got = read(firefox->socket, bytes + received, size - received);
        cr_assert_gt(got, 0, "Firefox has ended");
        received += (size_t)got;
    }
}

static cJSON *receive(struct firefox *firefox)
{
    size_t size = 0;
    for (char digit; receive_bytes(firefox, &digit, 1), digit != ':';
         size = 10 * size + (size_t)(digit - '0'))
        cr_assert(digit >= '0' && digit <= '9' && size < 100000000);
    char *bytes = remember(calloc(1, size + 1));
    cr_assert_not_null(bytes);
    receive_bytes(firefox, bytes, size);
    return json_parsed(bytes);
}

/* Calls a method with the members of `parameters`, which it takes. Returns the result, which the caller deletes. */
static cJSON *call(struct firefox *firefox, const char *method, cJSON *parameters)
{
    char *json = remember(cJSON_PrintUnformatted(parameters));
    cJSON_Delete(parameters);
    char *message = format("[0,%d,\"%s\",%s]", ++firefox->calls, method, json);
    message = format("%zu:%s", strlen(message), message);
    cr_assert_eq(write(firefox->socket, message, strlen(message)), (ssize_t)strlen(message));
    cJSON *answer RELEASED(free_json) = receive(firefox), *refusal = cJSON_GetArrayItem(answer, 2);
    cr_assert_eq(cJSON_GetArrayItem(answer, 0)->valueint, REPLY);
    cr_assert_eq(cJSON_GetArrayItem(answer, 1)->valueint, firefox->calls);
    cr_assert(cJSON_IsNull(refusal), "%s: %s", message, cJSON_PrintUnformatted(refusal));
    cJSON *result = cJSON_DetachItemFromArray(answer, 3);
    return result;
}

static cJSON *one(const char *key, const char *value)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, key, value);
    return object;
}

/* ---- the browser ---- */

static void become_firefox(const char *profile)
{
    int nowhere = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++) dup2(nowhere, i);
    setenv("HOME", profile, 1);
    execlp("firefox-esr", "firefox-esr", "--headless", "--no-remote", "--marionette", "--profile", profile,
           (char *)NULL);
    _exit(127);
}

/* The port that Firefox has chosen, which it writes into its profile. */
static int port_of(const char *profile)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    for (int i = 0; i < SECONDS * 20; i++) {
        size_t size;
        char *text = read_file(format("%s/MarionetteActivePort", profile), &size);
        if (text && atoi(text)) return atoi(text);
        nanosleep(&pause, NULL);
    }
    cr_assert_fail("Firefox opens no port within %d s", SECONDS);
    return 0;
}

struct firefox *firefox_open(const char *folder, const char *path, const char *fragment)
{
    struct firefox *firefox = remember(calloc(1, sizeof *firefox));
    char *profile = format("%s/firefox", folder);
    cr_assert(firefox && (!mkdir(profile, 0700) || errno == EEXIST));
    write_text(profile, "user.js", "user_pref(\"marionette.port\", 0);\n");
    firefox->process = fork();
    cr_assert_geq(firefox->process, 0);
    if (firefox->process == 0) become_firefox(profile);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port_of(profile)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    firefox->socket = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(firefox->socket, (struct sockaddr *)&address, sizeof address), 0);
    cJSON_Delete(receive(firefox)); /* the greeting */
    cJSON_Delete(call(firefox, "WebDriver:NewSession", cJSON_CreateObject()));
    cJSON_Delete(call(firefox, "WebDriver:Navigate", one("url", format("file://%s#%s", path, fragment))));
    return firefox;
}

char *firefox_value(struct firefox *firefox, const char *expression)
{
    cJSON *script =
        one("script", format("const at = name => document.querySelector(`[data-test=\"${name}\"]`); "
                             "return String(%s);",
                             expression));
    cJSON_AddArrayToObject(script, "args");
    cJSON *result = call(firefox, "WebDriver:ExecuteScript", script);
    char *text = format("%s", cJSON_GetStringValue(cJSON_GetObjectItem(result, "value")));
    cJSON_Delete(result);
    return text;
}

void firefox_wait(struct firefox *firefox, const char *expression)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int i = 0; i < SECONDS * 50; i++) {
        if (!strcmp(firefox_value(firefox, expression), "true")) return;
        nanosleep(&pause, NULL);
    }
    cr_assert_fail("never true: %s", expression);
}

/* The reference of an element. */
static char *find(struct firefox *firefox, const char *name)
{
    cJSON *query = one("using", "css selector");
    cJSON_AddStringToObject(query, "value", format("[data-test=\"%s\"]", name));
    cJSON *result RELEASED(free_json) = call(firefox, "WebDriver:FindElement", query);
    char *id = format("%s", cJSON_GetStringValue(cJSON_GetObjectItem(result, "value")->child));
    return id;
}

void firefox_click(struct firefox *firefox, const char *name)
{
    cJSON_Delete(call(firefox, "WebDriver:ElementClick", one("id", find(firefox, name))));
}

void firefox_type(struct firefox *firefox, const char *name, const char *keys)
{
    cJSON *typed = one("id", find(firefox, name));
    cJSON_AddStringToObject(typed, "text", keys);
    cJSON_Delete(call(firefox, "WebDriver:ElementSendKeys", typed));
}

void firefox_close(struct firefox *firefox)
{
    close(firefox->socket);
    kill(firefox->process, SIGTERM);
    waitpid(firefox->process, NULL, 0);
}
