// Cc: child processes, each with its output in a file, so that messages of parallel calls stay
// whole.
#define _GNU_SOURCE // posix_spawn_file_actions_addchdir_np
#include "build/cc.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/text.h"
#include "build/interrupt.h"

extern char **environ;

enum { WORDS_MAX = 32, LOG_LINES = 8 };

static const char *compiler(void)
{
    const char *chosen = getenv("CC");
    return chosen && *chosen ? chosen : "cc";
}

/// The words of $CC ("ccache gcc") and then the call's arguments.
static char **command(Arena *arena, const CcCall *call)
{
    char *words = arena_format(arena, "%s", compiler()), *rest = NULL;
    char **argv = NULL;
    int count = 0;
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        ARENA_PUSH(arena, argv, count, word);
    for (int i = 0; call->arguments[i]; i++)
        ARENA_PUSH(arena, argv, count, arena_format(arena, "%s", call->arguments[i]));
    ARENA_PUSH(arena, argv, count, NULL);
    return argv;
}

/// Each call is a process group of its own, so that all of a compiler driver's children can be
/// ended with it.
static int start(Arena *arena, const char *folder, const CcCall *call, pid_t *out_process)
{
    char **argv = command(arena, call);
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    int reason = posix_spawn_file_actions_init(&actions);
    if (reason != 0)
        return reason;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, call->log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    reason = posix_spawnp(out_process, argv[0], &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return reason;
}

static const char *first_lines(Arena *arena, const char *path)
{
    const Source *log = file_read(arena, diags_create(arena), path, (Span){0});
    if (!log || log->length == 0)
        return "(it printed nothing; is the disk full?)";
    const char *end = log->text;
    for (int i = 0; i < LOG_LINES && *end; i++) {
        end += strcspn(end, "\n");
        end += *end == '\n';
    }
    return arena_copy(arena, log->text, (size_t)(end - log->text));
}

static void report(Arena *arena, Diags *diags, const char *folder, const CcCall *call, int status)
{
    const char *lines = first_lines(arena, arena_format(arena, "%s/%s", folder, call->log));
    if (strstr(lines, "No space left on device")) {
        Diag *diag = diag_add(diags, DIAG_E0002, (Span){0}, "cannot write %s'%s': %s",
                              call->target ? "" : "in ", call->target ? call->target : folder,
                              strerror(ENOSPC));
        if (!call->target)
            diag_help(diag, "set TMPDIR to a folder with more room");
    } else if (WIFSIGNALED(status)) {
        diag_add(diags, DIAG_E0710, (Span){0}, "'%s' was ended by signal %d while compiling %s",
                 compiler(), WTERMSIG(status), call->what);
    } else {
        diag_add(diags, DIAG_E0710, (Span){0}, "'%s' failed on %s:\n%s", compiler(), call->what,
                 lines);
    }
}

static void report_start(Diags *diags, int reason)
{
    Diag *diag = diag_add(diags, DIAG_E0711, (Span){0}, "cannot start the C compiler '%s': %s",
                          compiler(), strerror(reason));
    diag_help(diag, "install one (apt-get install gcc, or dnf install gcc), or name another: "
                    "CC=clang rnnc ...");
}

/// Waits for one of the running calls; a failure is reported once.
static bool finish_one(Arena *arena, Diags *diags, const char *folder, const CcCall *calls,
                       volatile pid_t *processes, int count, bool quiet)
{
    int status = 0;
    pid_t ended;
    for (int i = 0; i < count; i++) {
        if (processes[i] == 0)
            continue;
        do
            ended = waitpid(processes[i], &status, 0);
        while (ended < 0 && errno == EINTR);
        processes[i] = 0;
        bool passed = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!passed && !quiet)
            report(arena, diags, folder, &calls[i], status);
        return passed;
    }
    return true;
}

bool cc_run(Arena *arena, Diags *diags, const char *folder, const CcCall *calls, int count,
            int jobs)
{
    volatile pid_t *processes = ARENA_ARRAY(arena, pid_t, count);
    int running = 0, started = 0;
    bool passed = true;
    interrupt_watch(processes, count);
    while ((started < count && passed) || running > 0) {
        if (started < count && passed && running < jobs) {
            pid_t process = 0;
            int reason = start(arena, folder, &calls[started], &process);
            if (reason != 0) {
                report_start(diags, reason);
                passed = false;
            } else {
                processes[started] = process;
                running++;
            }
            started++;
            continue;
        }
        bool one = finish_one(arena, diags, folder, calls, processes, started, !passed);
        passed = passed && one && !interrupt_noted();
        running--;
    }
    interrupt_watch(NULL, 0);
    return passed;
}

const char *cc_script(Arena *arena, const CcCall *calls, int count)
{
    Text script = {.arena = arena};
    text_add(&script, "#!/bin/sh\n# Builds the module from the files of this folder.\nset -e\n"
                      "cd \"$(dirname \"$0\")\"\n");
    for (int i = 0; i < count; i++) {
        text_add(&script, compiler());
        for (int k = 0; calls[i].arguments[k]; k++)
            text_addf(&script, " '%s'", calls[i].arguments[k]);
        text_add(&script, "\n");
    }
    return text_string(&script);
}
