// Mutation test of one reader: `mutate NAME SEED ROUNDS [CORPUS]`. The files of the folder CORPUS
// are given to it as they are, cut at 32 KiB; then a valid file is changed at random (bits,
// bytes, words of extreme value, cuts, repeats) and given to the reader in memory that ends at a
// page that may not be read, so that a read beyond the end faults also without a sanitizer. The
// same seed gives the same files. Fails too where the valid file itself is refused, or where no
// mutant is.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "prim/philox.h"
#include "targets.h"

enum { ROOM_BYTES = 1 << 15, CHANGES_MAX = 4 };

typedef struct {
    unsigned int seed, at;
} Random;

static unsigned int draw(Random *random, unsigned int below)
{
    unsigned int words[4] = {random->at++, 0, 0, 0};
    rnn_philox(words, random->seed, 0);
    return words[0] % below;
}

static size_t repeat_part(Random *random, unsigned char *bytes, size_t size_bytes)
{
    size_t from = draw(random, (unsigned int)size_bytes);
    size_t count = 1 + draw(random, (unsigned int)(size_bytes - from));
    if (size_bytes + count > ROOM_BYTES)
        return size_bytes;
    memmove(bytes + from + count, bytes + from, size_bytes - from);
    return size_bytes + count;
}

static void write_extreme(Random *random, unsigned char *bytes, size_t size_bytes)
{
    static const unsigned int extremes[] = {0,      1,          0x7f,       0xff,
                                            0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
    unsigned int value = extremes[draw(random, 8)];
    size_t at = draw(random, (unsigned int)size_bytes);
    size_t width = size_bytes - at < sizeof value ? size_bytes - at : sizeof value;
    memcpy(bytes + at, &value, width);
}

static size_t change(Random *random, unsigned char *bytes, size_t size_bytes)
{
    if (size_bytes == 0)
        return 0;
    size_t at = draw(random, (unsigned int)size_bytes);
    switch (draw(random, 6)) {
    case 0:
        bytes[at] = (unsigned char)(bytes[at] ^ 1u << draw(random, 8));
        return size_bytes;
    case 1:
        bytes[at] = (unsigned char)draw(random, 256);
        return size_bytes;
    case 2: /* a character that headers are made of */
        bytes[at] = (unsigned char)"0123456789-,.:[](){}'\"eE<>fi"[draw(random, 28)];
        return size_bytes;
    case 3:
        write_extreme(random, bytes, size_bytes);
        return size_bytes;
    case 4:
        return draw(random, 8) ? size_bytes : at;
    default:
        return repeat_part(random, bytes, size_bytes);
    }
}

/// ROOM_BYTES that end at an unreadable page.
static unsigned char *guarded_room(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (ROOM_BYTES + page - 1) / page * page;
    unsigned char *memory =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + room, page, PROT_NONE) != 0)
        return NULL;
    return memory + room - ROOM_BYTES;
}

static const FuzzTarget *find_target(const char *name)
{
    const FuzzTarget *target = fuzz_targets;
    while (target->name && strcmp(target->name, name) != 0)
        target++;
    return target->name ? target : NULL;
}

/// Files to start libFuzzer from, which are also those that it once found. False where the folder
/// cannot be read.
static bool run_corpus(const FuzzTarget *target, const char *path, unsigned char *room)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char name[512];
        static unsigned char bytes[ROOM_BYTES];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(name, "rb");
        if (!file)
            continue;
        const size_t size_bytes = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        memcpy(room + ROOM_BYTES - size_bytes, bytes, size_bytes);
        printf("%s: %s\n", entry->d_name,
               target->run(room + ROOM_BYTES - size_bytes, size_bytes) ? "taken" : "refused");
    }
    return folder && closedir(folder) == 0;
}

int main(int argument_count, char **arguments)
{
    const FuzzTarget *target = argument_count >= 4 ? find_target(arguments[1]) : NULL;
    unsigned char *room = guarded_room();
    if (!target || !room) {
        fprintf(stderr, "usage: mutate NAME SEED ROUNDS [CORPUS]\n");
        return 2;
    }
    if (argument_count > 4 && !run_corpus(target, arguments[4], room)) {
        fprintf(stderr, "cannot read %s\n", arguments[4]);
        return 2;
    }
    static unsigned char mutant[ROOM_BYTES];
    Random random = {.seed = (unsigned int)strtoul(arguments[2], NULL, 10)};
    long rounds = strtol(arguments[3], NULL, 10), taken = 0;
    size_t seed_bytes = 0;
    unsigned char *seed = target->make(&seed_bytes);
    bool seed_taken = target->run(seed, seed_bytes);
    for (long i = 0; i < rounds; i++) {
        size_t size_bytes = seed_bytes;
        memcpy(mutant, seed, seed_bytes);
        for (unsigned int left = 1 + draw(&random, CHANGES_MAX); left > 0; left--)
            size_bytes = change(&random, mutant, size_bytes);
        unsigned char *placed = room + ROOM_BYTES - size_bytes;
        memcpy(placed, mutant, size_bytes);
        taken += target->run(placed, size_bytes);
    }
    free(seed);
    printf("%s: %ld mutants, %ld taken\n", target->name, rounds, taken);
    return seed_taken && taken < rounds ? 0 : 1;
}
