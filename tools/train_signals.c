#include "train_signals.h"

#include "end_by_signal.h"
#include "status_block.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t received; /* the number of the signal; 0: none */
static struct train_signals shown;     /* set before the handlers are installed */

static void on_end(int number)
{
    static const char message[] =
        "qkv: interrupted: saving a checkpoint after this update; interrupt again to stop without saving\n";
    static const char erased[] = STATUS_BLOCK_ERASE, next_line[] = "\n"; /* the terminal has printed ^C */
    int saved = errno;
    if (received == number) end_by_signal(number);
    received = number;
    if (!shown.quiet) {
        ssize_t written = shown.has_block ? write(STDERR_FILENO, erased, sizeof erased - 1)
                                          : write(STDERR_FILENO, next_line, sizeof next_line - 1);
        if (written > 0) written = write(STDERR_FILENO, message, sizeof message - 1);
        (void)written;
    }
    errno = saved;
}

/* Ctrl-Z: erases the block, so that the shell prints its prompt in its place. */
static void on_stop(int number)
{
    int saved = errno;
    ssize_t written = write(STDERR_FILENO, STATUS_BLOCK_ERASE, sizeof STATUS_BLOCK_ERASE - 1);
    (void)written;
    (void)number;
    kill(getpid(), SIGSTOP);
    errno = saved;
}

/* SIGHUP stays ignored under nohup, so that training outlives the terminal. SIGPIPE is ignored, because training should not end
 * when stderr is closed. */
void train_signals_handle(struct train_signals signals)
{
    struct sigaction end = {.sa_handler = on_end}, before;
    struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    shown = signals;
    sigemptyset(&end.sa_mask);
    sigemptyset(&stop.sa_mask);
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGTERM, &end, NULL);
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &end, NULL);
    if (shown.has_block && !sigaction(SIGTSTP, NULL, &before) && before.sa_handler != SIG_IGN)
        sigaction(SIGTSTP, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int train_signals_received(void)
{
    return received;
}
