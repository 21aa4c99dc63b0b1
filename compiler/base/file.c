// Files: see file.h.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/// Words for an errno; EINVAL is that of open_regular and file_to_replace.
static const char *reason_text(int reason)
{
    return reason == EINVAL ? "it is a device or a pipe, not a file" : strerror(reason);
}

static int open_regular(const char *path, size_t *out_size_bytes)
{
    // A pipe without a writer must not be waited for.
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat facts;
    if (file < 0)
        return -1;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        close(file);
        errno = S_ISDIR(facts.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    *out_size_bytes = (size_t)facts.st_size;
    return file;
}

static bool read_all(int file, char *data, size_t size_bytes)
{
    for (size_t done = 0; done < size_bytes;) {
        ssize_t got = read(file, data + done, size_bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

const Source *file_read(Arena *arena, Diags *diags, const char *path, Span from)
{
    size_t size_bytes = 0;
    int file = open_regular(path, &size_bytes);
    char *text = file < 0 ? NULL : arena_alloc(arena, size_bytes + 1);
    bool read = text && read_all(file, text, size_bytes);
    int reason = errno;
    if (file >= 0)
        close(file);
    if (!read) {
        diag_add(diags, DIAG_E0001, from, "cannot read '%s': %s", path, reason_text(reason));
        return NULL;
    }
    Source *source = ARENA_NEW(arena, Source);
    *source = (Source){arena_copy(arena, path, strlen(path)), text, size_bytes};
    return source;
}

bool file_map(Diags *diags, const char *path, Span from, const unsigned char **out_data,
              size_t *out_size_bytes)
{
    int file = open_regular(path, out_size_bytes);
    void *data = MAP_FAILED;
    if (file >= 0 && *out_size_bytes == 0)
        data = (void *)"";
    else if (file >= 0)
        data = mmap(NULL, *out_size_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    int reason = errno;
    if (file >= 0)
        close(file);
    if (data == MAP_FAILED) {
        diag_add(diags, DIAG_E0001, from, "cannot read '%s': %s", path, reason_text(reason));
        return false;
    }
    *out_data = data;
    return true;
}

static bool write_all(int file, const char *data, size_t size_bytes)
{
    for (size_t done = 0; done < size_bytes;) {
        ssize_t put = write(file, data + done, size_bytes - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

const char *file_to_replace(Arena *arena, Diags *diags, const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return path;
    if (!S_ISREG(facts.st_mode)) {
        diag_add(diags, DIAG_E0002, (Span){0}, "cannot write '%s': %s", path,
                 S_ISDIR(facts.st_mode) ? strerror(EISDIR)
                                        : "it is a device or a pipe, not a file");
        return NULL;
    }
    char *real = realpath(path, NULL);
    const char *name = real ? arena_copy(arena, real, strlen(real)) : path;
    free(real);
    return name;
}

/// 0, or the errno of what failed; nothing is left behind then.
static int replace(char *temporary, const char *path, const void *data, size_t size_bytes)
{
    int file = mkstemp(temporary);
    if (file < 0)
        return errno;
    bool written = write_all(file, data, size_bytes) && fchmod(file, 0644) == 0;
    int reason = written ? 0 : errno;
    if (close(file) != 0 && written)
        reason = errno;
    if (reason == 0 && rename(temporary, path) != 0)
        reason = errno;
    if (reason != 0)
        unlink(temporary);
    return reason;
}

bool file_write(Arena *arena, Diags *diags, const char *path, const void *data, size_t size_bytes)
{
    const char *real = file_to_replace(arena, diags, path);
    if (!real)
        return false;
    sigset_t ending, before;
    sigemptyset(&ending);
    sigaddset(&ending, SIGHUP);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigprocmask(SIG_BLOCK, &ending, &before);
    int reason = replace(arena_format(arena, "%s.XXXXXX", real), real, data, size_bytes);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (reason == 0)
        return true;
    diag_add(diags, DIAG_E0002, (Span){0}, "cannot write '%s': %s", path, strerror(reason));
    return false;
}

bool file_check_writable(Arena *arena, Diags *diags, const char *path)
{
    const char *real = file_to_replace(arena, diags, path);
    if (!real)
        return false;
    char *temporary = arena_format(arena, "%s.XXXXXX", real);
    const int file = mkstemp(temporary);
    if (file < 0) {
        diag_add(diags, DIAG_E0002, (Span){0}, "cannot write '%s': %s", path, strerror(errno));
        return false;
    }
    close(file);
    unlink(temporary);
    return true;
}

const char *file_beside(Arena *arena, const char *beside, const char *name)
{
    const char *slash = strrchr(beside, '/');
    if (name[0] == '/' || !slash)
        return arena_copy(arena, name, strlen(name));
    return arena_format(arena, "%.*s/%s", (int)(slash - beside), beside, name);
}
