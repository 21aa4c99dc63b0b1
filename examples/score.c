// Scores a text with a character model, through the public API alone:
//
//     score model.so vocabulary.txt passage.txt [device]
//
// The model takes tokens [1, T] int32 and gives logits [1, T, V]; token n is the n-th byte of the
// vocabulary file. Prints the bits per character over characters 2 to N, each predicted from all
// before it, the variant that ran, the device, and the time of one run.
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rnnc/rnnc.h"

typedef struct {
    unsigned char *bytes;
    size_t count;
} File;

static bool read_file(const char *path, File *file)
{
    FILE *stream = fopen(path, "rb");
    bool is_read = stream && fseek(stream, 0, SEEK_END) == 0;
    long size = is_read ? ftell(stream) : -1;
    file->bytes = size > 0 ? malloc((size_t)size) : NULL;
    is_read = file->bytes && fseek(stream, 0, SEEK_SET) == 0;
    file->count = is_read ? fread(file->bytes, 1, (size_t)size, stream) : 0;
    if (stream)
        fclose(stream);
    if (!is_read || file->count != (size_t)size)
        fprintf(stderr, "score: cannot read %s\n", path);
    return is_read && file->count == (size_t)size;
}

static bool tokenize(const File *vocabulary, const File *passage, int32_t *tokens)
{
    for (size_t i = 0; i < passage->count; i++) {
        const unsigned char *at = memchr(vocabulary->bytes, passage->bytes[i], vocabulary->count);
        if (!at) {
            fprintf(stderr, "score: byte %zu of the passage (0x%02x) is not in the vocabulary\n", i,
                    passage->bytes[i]);
            return false;
        }
        tokens[i] = (int32_t)(at - vocabulary->bytes);
    }
    return true;
}

/// Sum of -log2 softmax(logits)[next token] over all steps but the last.
static double bits(const float *logits, const int32_t *tokens, size_t steps, size_t vocabulary)
{
    double sum = 0;
    for (size_t t = 0; t + 1 < steps; t++) {
        const float *row = logits + t * vocabulary;
        double most = row[0], total = 0;
        for (size_t i = 1; i < vocabulary; i++)
            most = row[i] > most ? row[i] : most;
        for (size_t i = 0; i < vocabulary; i++)
            total += exp(row[i] - most);
        sum += (most + log(total) - row[tokens[t + 1]]) / log(2);
    }
    return sum;
}

static double milliseconds(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/// Memory of the session's device, bound as `name`.
static rnnc_status bind(rnnc_session *session, const char *name, DLDataType dtype, int64_t *shape,
                        int ndim, void **out_memory)
{
    size_t bytes = 4;
    for (int i = 0; i < ndim; i++)
        bytes *= (size_t)shape[i];
    rnnc_status status = rnnc_device_alloc(session, bytes, out_memory);
    if (status != RNNC_OK)
        return status;
    int number = 0;
    bool is_cuda = sscanf(rnnc_session_device(session), "cuda:%d", &number) == 1;
    DLTensor tensor = {.data = *out_memory,
                       .device = {is_cuda ? kDLCUDA : kDLCPU, number},
                       .ndim = ndim,
                       .dtype = dtype,
                       .shape = shape};
    return rnnc_bind(session, name, &tensor);
}

/// Runs the tokens, twice, and copies the logits out; *out_ms is the time of the second run.
static rnnc_status run(rnnc_session *session, const int32_t *tokens, float *logits, size_t steps,
                       size_t vocabulary, double *out_ms)
{
    int64_t shape[] = {1, (int64_t)steps, (int64_t)vocabulary};
    void *x = NULL, *y = NULL;
    rnnc_status status = bind(session, "x", (DLDataType){kDLInt, 32, 1}, shape, 2, &x);
    if (status == RNNC_OK)
        status = bind(session, "y", (DLDataType){kDLFloat, 32, 1}, shape, 3, &y);
    if (status == RNNC_OK)
        status = rnnc_device_write(session, x, tokens, steps * sizeof *tokens);
    for (int i = 0; i < 2 && status == RNNC_OK; i++) {
        double start = milliseconds();
        status = rnnc_run(session);
        if (status == RNNC_OK)
            status = rnnc_synchronize(session);
        *out_ms = milliseconds() - start;
    }
    if (status == RNNC_OK)
        status = rnnc_device_read(session, logits, y, steps * vocabulary * sizeof *logits);
    rnnc_device_free(session, x);
    rnnc_device_free(session, y);
    return status;
}

static int score(const char *path, const char *device, const File *vocabulary, const File *passage)
{
    size_t steps = passage->count;
    int32_t *tokens = malloc(steps * sizeof *tokens);
    float *logits = malloc(steps * vocabulary->count * sizeof *logits);
    rnnc_module *module = NULL;
    rnnc_session *session = NULL;
    rnnc_session_options options = {.device = device, .max_timesteps = (int64_t)steps};
    int code = 1;
    double ms = 0;
    if (!tokens || !logits || !tokenize(vocabulary, passage, tokens))
        goto done;
    if (rnnc_module_open(path, &module) != RNNC_OK ||
        rnnc_session_create(module, &options, &session) != RNNC_OK) {
        fprintf(stderr, "score: %s\n", rnnc_last_error());
        goto done;
    }
    if (run(session, tokens, logits, steps, vocabulary->count, &ms) != RNNC_OK) {
        fprintf(stderr, "score: %s\n", rnnc_session_error(session));
        goto done;
    }
    printf("%.8f bits per character over %zu characters\n",
           bits(logits, tokens, steps, vocabulary->count) / (double)(steps - 1), steps - 1);
    const char *layer = rnnc_session_layer(session, 0), *reason = NULL;
    const char *variant = layer ? rnnc_session_variant(session, layer, &reason) : NULL;
    printf("variant %s (%s) on %s, %.2f ms\n", variant ? variant : "none", reason ? reason : "-",
           rnnc_session_device(session), ms);
    code = 0;
done:
    rnnc_session_destroy(session);
    rnnc_module_close(module);
    free(tokens);
    free(logits);
    return code;
}

int main(int argument_count, char **arguments)
{
    if (argument_count < 4 || argument_count > 5) {
        fprintf(stderr, "usage: score model.so vocabulary.txt passage.txt [cpu|cuda:0]\n");
        return 2;
    }
    File vocabulary = {0}, passage = {0};
    int code = 1;
    if (read_file(arguments[2], &vocabulary) && read_file(arguments[3], &passage))
        code =
            score(arguments[1], argument_count == 5 ? arguments[4] : NULL, &vocabulary, &passage);
    free(vocabulary.bytes);
    free(passage.bytes);
    return code;
}
