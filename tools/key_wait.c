#define _DEFAULT_SOURCE /* SIGWINCH */
#include "key_wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

enum { SIGNALS = 3 };

static const int SIGNAL[SIGNALS] = {SIGINT, SIGWINCH, SIGCONT};
static struct sigaction before[SIGNALS];

/* The handlers write to a pipe, so that poll also notices a signal that came before poll was called, and a signal that another
 * thread received, which would not interrupt poll. -1: no pipe. */
static int pipe_ends[2] = {-1, -1};

static void on_signal(int number)
{
    int saved = errno;
    const char event = (char)(number == SIGINT ? KEY_INTERRUPT : KEY_REDRAW);
    ssize_t written = write(pipe_ends[1], &event, 1);
    (void)written;
    errno = saved;
}

void key_wait_begin(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    if (pipe(pipe_ends)) { /* out of descriptors: Ctrl-C ends the process */
        pipe_ends[0] = pipe_ends[1] = -1;
        return;
    }
    for (int i = 0; i < 2; i++) {
        fcntl(pipe_ends[i], F_SETFL, O_NONBLOCK);
        fcntl(pipe_ends[i], F_SETFD, FD_CLOEXEC);
    }
    for (int i = 0; i < SIGNALS; i++) sigaction(SIGNAL[i], &action, &before[i]);
}

enum key_event key_wait(void)
{
    for (;;) {
        struct pollfd ready[2] = {{.fd = pipe_ends[0], .events = POLLIN},
                                  {.fd = STDIN_FILENO, .events = POLLIN}};
        char event;
        if (poll(ready, 2, -1) < 0 && errno == EINTR) continue;
        if (pipe_ends[0] >= 0 && read(pipe_ends[0], &event, 1) == 1) return (enum key_event)event;
        return KEY_READY;
    }
}

void key_wait_end(void)
{
    if (pipe_ends[0] < 0) return;
    for (int i = 0; i < SIGNALS; i++) sigaction(SIGNAL[i], &before[i], NULL);
    for (int i = 0; i < 2; i++) close(pipe_ends[i]);
    pipe_ends[0] = pipe_ends[1] = -1;
}
