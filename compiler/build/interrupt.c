// Interrupt: see interrupt.h. The handler does no more than a handler may: a store and kill().
#include "build/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static struct sigaction before[NUMBERS];
static volatile sig_atomic_t noted;
static const volatile pid_t *volatile watched;
static volatile sig_atomic_t watched_count;

static void note(int number)
{
    int kept = errno;
    noted = number;
    for (int i = 0; i < watched_count; i++)
        if (watched[i] > 0)
            kill(-watched[i], SIGTERM);
    errno = kept;
}

void interrupt_hold(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    noted = 0;
    for (int i = 0; i < NUMBERS; i++) {
        sigaction(numbers[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

void interrupt_watch(const volatile pid_t *groups, int count)
{
    watched_count = 0;
    watched = groups;
    watched_count = count;
}

bool interrupt_noted(void)
{
    return noted != 0;
}

void interrupt_release(void)
{
    for (int i = 0; i < NUMBERS; i++)
        sigaction(numbers[i], &before[i], NULL);
    if (noted)
        raise(noted);
}
