// A module run on arrays from files: see module_run.h. The steps: open the module, read the inputs
// and hold them against its tensors, create a session for their B and T, then, chunk by chunk,
// write x, run, read y, and hand the states from one chunk to the next.
#include "cli/module_run.h"

#include <inttypes.h>
#include <string.h>

#include "cli/module_masks.h"
#include "cli/module_ports.h"
#include "plan/plan.h"

typedef struct {
    CliCall *call;
    rnnc_module *module;
    rnnc_session *session;
    int64_t batch, timesteps, chunk;
    Port *inputs, *outputs; ///< lengths and mask are inputs that need not be given
    int input_count, output_count;
    Masks masks;
    int64_t seed;
    const GivenArrays *given; ///< may be NULL
    NpzMember *initial;       ///< --state and given states, as float32; NULL: none
    int initial_count;
} Run;

/// Adds what the runtime says; `what` (or NULL) says what was tried.
static bool fail(const Run *run, rnnc_status status, const char *what)
{
    DiagCode code = DIAG_E0805;
    if (status == RNNC_BAD_MODULE)
        code = DIAG_E0802;
    else if (status == RNNC_NOT_FOUND && !run->module)
        code = DIAG_E0001;
    else if (status == RNNC_UNAVAILABLE || status == RNNC_DEVICE_ERROR ||
             status == RNNC_OUT_OF_MEMORY)
        code = DIAG_E0806;
    const char *words = run->session ? rnnc_session_error(run->session) : rnnc_last_error();
    diag_add(run->call->diags, code, (Span){0}, "%s%s%s", what ? what : "", what ? ": " : "",
             words && words[0] ? words : rnnc_status_name(status));
    return false;
}

const NamedFile *cli_named_files(CliCall *call, const char *option, int *out_count)
{
    const char **values = cli_values(call, option, out_count);
    NamedFile *files = ARENA_ARRAY(call->arena, NamedFile, *out_count + 1);
    for (int i = 0; i < *out_count; i++) {
        const char *equals = strchr(values[i], '=');
        if (!equals || equals == values[i] || !equals[1]) {
            cli_usage(call, "--%s wants NAME=FILE.npy, not '%s'", option, values[i]);
            return NULL;
        }
        files[i] = (NamedFile){arena_copy(call->arena, values[i], (size_t)(equals - values[i])),
                               equals + 1};
    }
    return files;
}

static const rnnc_tensor_info *find_tensor(const Run *run, const char *name)
{
    for (size_t i = 0; i < rnnc_module_tensor_count(run->module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(run->module, i);
        if (strcmp(info->name, name) == 0)
            return info;
    }
    return NULL;
}

/// Names `word` ("input") tensors of one or two roles for the help of a wrong name.
static bool unknown_tensor(const Run *run, const char *name, const char *word, rnnc_role role,
                           rnnc_role also)
{
    Arena *arena = run->call->arena;
    const char **names =
        ARENA_ARRAY(arena, const char *, rnnc_module_tensor_count(run->module) + 1);
    size_t count = 0;
    Text list = {.arena = arena};
    for (size_t i = 0; i < rnnc_module_tensor_count(run->module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(run->module, i);
        if (info->role != role && info->role != also)
            continue;
        text_addf(&list, "%s%s", count ? ", " : "", info->name);
        names[count++] = info->name;
    }
    Diag *diag =
        diag_add(run->call->diags, DIAG_E0803, (Span){0}, "the module has no %s '%s'", word, name);
    const char *near = text_nearest(name, names, count);
    if (near)
        diag_help(diag, "did you mean '%s'?", near);
    else
        diag_help(diag, "it has: %s", text_string(&list));
    return false;
}

/// Holds an array against the module's tensor; B and T must be the run's, which the first input
/// sets.
static bool check_shape(Run *run, const char *path, const Port *port, const NpyArray *array)
{
    const rnnc_tensor_info *info = port->info;
    bool fits = array->dim_count == info->ndim && array->elems > 0, sizes_known = run->batch != 0;
    for (int i = 0; i < info->ndim && fits; i++) {
        int64_t *size = i == port->batch_axis  ? &run->batch
                        : i == port->time_axis ? &run->timesteps
                                               : NULL;
        fits = info->dims[i] < 0 || info->dims[i] == array->dims[i];
        if (size && *size == 0)
            *size = array->dims[i];
        fits = fits && (!size || *size == array->dims[i]);
    }
    if (fits)
        return true;
    Arena *arena = run->call->arena;
    Diag *diag = diag_add(run->call->diags, DIAG_E0804, (Span){0},
                          "'%s' is %s, but '%s' of the module is %s", path,
                          npy_shape_text(arena, array->dims, array->dim_count), info->name,
                          port_shape_text(arena, info));
    if (sizes_known)
        diag_help(diag, "here B is %" PRId64 "%s", run->batch,
                  run->timesteps ? arena_format(arena, " and T is %" PRId64, run->timesteps) : "");
    return false;
}

/// Tokens must be below the vocabulary, the rows of the first embedding.
static bool check_tokens(const Run *run, const char *path, const int32_t *tokens, int64_t count)
{
    int64_t vocabulary = INT32_MAX;
    for (size_t i = 0; i < rnnc_module_tensor_count(run->module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(run->module, i);
        size_t length = strlen(info->name);
        if (info->role == RNNC_ROLE_WEIGHT && length > 2 &&
            strcmp(info->name + length - 2, "/E") == 0) {
            vocabulary = info->dims[0];
            break;
        }
    }
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= vocabulary) {
            diag_add(run->call->diags, DIAG_E0804, (Span){0},
                     "'%s': element %" PRId64 " is token %d; tokens are 0 to %" PRId64, path, i,
                     tokens[i], vocabulary - 1);
            return false;
        }
    return true;
}

static bool convert(const Run *run, const char *path, Port *port, const NpyArray *array)
{
    if (port->info->role == RNNC_ROLE_MASK)
        return masks_convert(run->call, path, port, array, run->timesteps);
    port->host = arena_alloc(run->call->arena, (size_t)array->elems * 4);
    if (port->info->dtype.code == kDLFloat) {
        npy_to_float(array, (float *)port->host);
        return true;
    }
    int64_t bad = 0;
    if (npy_to_int32(array, (int32_t *)port->host, &bad))
        return check_tokens(run, path, (const int32_t *)port->host, array->elems);
    if (bad < 0)
        diag_add(run->call->diags, DIAG_E0804, (Span){0},
                 "'%s' is %s, but '%s' of the module holds tokens (int32)", path,
                 npy_type_name(array->type), port->info->name);
    else
        diag_add(run->call->diags, DIAG_E0804, (Span){0},
                 "'%s': element %" PRId64 " does not fit int32", path, bad);
    return false;
}

/// The port of an input or mask, or NULL where the module has none of that name.
static Port *find_port(Run *run, const char *name, rnnc_role role)
{
    for (int i = 0; i < run->input_count; i++)
        if (run->inputs[i].info->role == role && strcmp(run->inputs[i].info->name, name) == 0)
            return &run->inputs[i];
    unknown_tensor(run, name, role == RNNC_ROLE_MASK ? "mask" : "input", role, role);
    return NULL;
}

/// Takes `array`, or opens `path` where that is NULL.
static bool take_input(Run *run, const char *name, const char *path, const NpyArray *array,
                       rnnc_role role)
{
    Port *port = find_port(run, name, role);
    if (!port)
        return false;
    if (port->host) {
        cli_usage(run->call, "input '%s' is given twice", name);
        return false;
    }
    NpyArray opened;
    if (!array && !npy_open(run->call->arena, run->call->diags, path, (Span){0}, &opened))
        return false;
    array = array ? array : &opened;
    return check_shape(run, path, port, array) && convert(run, path, port, array);
}

/// The given arrays of a role: inputs before masks, since x sets B and T. States come later.
static bool take_given(Run *run, rnnc_role role)
{
    bool good = true;
    for (int i = 0; run->given && i < run->given->count; i++) {
        const NpzMember *member = &run->given->members[i];
        const rnnc_tensor_info *info = find_tensor(run, member->name);
        if (!info && role == RNNC_ROLE_INPUT)
            good = unknown_tensor(run, member->name, "input or state", RNNC_ROLE_INPUT,
                                  RNNC_ROLE_STATE);
        if (info && info->role == role)
            good &= take_input(run, member->name, run->given->path, &member->array, role);
    }
    return good;
}

static void list_ports(Run *run)
{
    size_t count = rnnc_module_tensor_count(run->module);
    run->inputs = ARENA_ARRAY(run->call->arena, Port, count + 1);
    run->outputs = ARENA_ARRAY(run->call->arena, Port, count + 1);
    for (size_t i = 0; i < count; i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(run->module, i);
        if (info->role == RNNC_ROLE_INPUT || info->role == RNNC_ROLE_MASK)
            run->inputs[run->input_count++] = port_make(run->module, i);
        else if (info->role == RNNC_ROLE_OUTPUT)
            run->outputs[run->output_count++] = port_make(run->module, i);
    }
}

/// --lengths or --mask, after x has set B and T; ports that nothing was given for go.
static bool read_masks(Run *run)
{
    const NamedFile files[] = {{"lengths", cli_value(run->call, "lengths")},
                               {"mask", cli_value(run->call, "mask")}};
    for (int i = 0; i < 2; i++)
        if (files[i].path && !take_input(run, files[i].name, files[i].path, NULL, RNNC_ROLE_MASK))
            return false;
    if (!take_given(run, RNNC_ROLE_MASK))
        return false;
    int kept = 0;
    for (int i = 0; i < run->input_count; i++) {
        Port *port = &run->inputs[kept];
        *port = run->inputs[i];
        if (!port->host)
            continue;
        if (port->info->role == RNNC_ROLE_MASK)
            *(port->info->ndim == 1 ? &run->masks.lengths : &run->masks.mask) = port;
        kept++;
    }
    run->input_count = kept;
    return true;
}

static bool read_inputs(Run *run)
{
    int count = 0;
    const NamedFile *files = cli_named_files(run->call, "in", &count);
    bool good = files != NULL;
    for (int i = 0; i < count && files; i++)
        good &= take_input(run, files[i].name, files[i].path, NULL, RNNC_ROLE_INPUT);
    good = good && take_given(run, RNNC_ROLE_INPUT);
    for (int i = 0; i < run->input_count && good; i++)
        if (!run->inputs[i].host && run->inputs[i].info->role == RNNC_ROLE_INPUT) {
            cli_usage(run->call, "input '%s' is missing: give --in %s=FILE.npy",
                      run->inputs[i].info->name, run->inputs[i].info->name);
            good = false;
        }
    return good && read_masks(run);
}

static bool check_wanted(const Run *run, const NamedFile *wanted, int count)
{
    bool good = true;
    for (int i = 0; i < count; i++) {
        const rnnc_tensor_info *info = find_tensor(run, wanted[i].name);
        if (!info || (info->role != RNNC_ROLE_OUTPUT && info->role != RNNC_ROLE_STATE))
            good = unknown_tensor(run, wanted[i].name, "output or state", RNNC_ROLE_OUTPUT,
                                  RNNC_ROLE_STATE);
    }
    return good;
}

/// The name of --variant, before its colon ("cudnn:standard"). Whether the module and the device
/// have it, the runtime tells.
static bool check_variant(CliCall *call)
{
    const char *name = cli_value(call, "variant");
    if (!name || variant_find(arena_copy(call->arena, name, strcspn(name, ":"))))
        return true;
    Text known = {.arena = call->arena};
    for (const Variant *const *at = plan_variants; *at; at++)
        text_addf(&known, "%s%s", at == plan_variants ? "" : ", ", (*at)->name);
    Diag *diag = diag_add(call->diags, DIAG_E0602, (Span){0}, "unknown variant '%s'", name);
    diag_help(diag, "known: %s", text_string(&known));
    return false;
}

static bool read_options(Run *run)
{
    if (cli_value(run->call, "lengths") && cli_value(run->call, "mask")) {
        cli_usage(run->call, "--lengths and --mask exclude each other: both end a row's steps");
        return false;
    }
    return check_variant(run->call) && cli_integer(run->call, "chunk", 1, INT32_MAX, &run->chunk) &&
           cli_integer(run->call, "seed", 0, INT64_MAX, &run->seed);
}

/// Whether the module gives the same where its steps come in chunks.
static bool check_chunk(Run *run)
{
    rnnc_streaming streaming;
    rnnc_status status = rnnc_module_streaming(run->module, &streaming);
    if (status != RNNC_OK)
        return fail(run, status, NULL);
    run->masks.repeats = streaming.repeats_when_masked != 0;
    if (run->chunk == run->timesteps)
        return true;
    const Port *x = &run->inputs[0];
    const int64_t fixed = x->info->dims[x->time_axis];
    Diag *diag = NULL;
    if (fixed > 0) {
        diag = diag_add(run->call->diags, DIAG_E0805, (Span){0},
                        "--chunk %" PRId64 ": the module is compiled for %" PRId64
                        " time steps a call",
                        run->chunk, fixed);
        diag_help(diag, "compile it with `timesteps: any` in the spec's input");
    } else if (streaming.whole_layer) {
        diag = diag_add(run->call->diags, DIAG_E0805, (Span){0},
                        "--chunk %" PRId64 ": layer '%s' needs the whole sequence: %s", run->chunk,
                        streaming.whole_layer, streaming.reason);
        diag_help(diag, "run it without --chunk");
    }
    return diag == NULL;
}

static bool create_session(Run *run)
{
    if (run->chunk == 0 || run->chunk > run->timesteps)
        run->chunk = run->timesteps;
    if (!check_chunk(run))
        return false;
    rnnc_session_options options = {.device = cli_value(run->call, "device"),
                                    .variant = cli_value(run->call, "variant"),
                                    .max_batch = run->batch,
                                    .max_timesteps = run->chunk};
    rnnc_status status = rnnc_session_create(run->module, &options, &run->session);
    if (status != RNNC_OK)
        return fail(run, status, "cannot create a session");
    status = rnnc_set_seed(run->session, (uint64_t)run->seed);
    return status == RNNC_OK || fail(run, status, NULL);
}

static bool make_room(Run *run, Port *ports, int count)
{
    for (int i = 0; i < count; i++) {
        Port *port = &ports[i];
        port_size(port, run->batch, run->timesteps);
        if (!port->host)
            port->host = arena_alloc(run->call->arena, port_bytes(port, run->timesteps));
        rnnc_status status =
            rnnc_device_alloc(run->session, port_bytes(port, run->chunk), &port->device);
        if (status != RNNC_OK)
            return fail(run, status, "no room for the arrays");
    }
    return true;
}

static bool bind(Run *run, Port *port, int64_t timesteps)
{
    int64_t shape[4];
    port_shape(port, timesteps, shape);
    int32_t ordinal = 0; /* the session's device is "cpu" or "cuda:N (name)" */
    bool on_cuda = sscanf(rnnc_session_device(run->session), "cuda:%" SCNd32, &ordinal) == 1;
    DLTensor tensor = {.data = port->device,
                       .device = {on_cuda ? kDLCUDA : kDLCPU, ordinal},
                       .ndim = port->info->ndim,
                       .dtype = port->info->dtype,
                       .shape = shape};
    rnnc_status status = rnnc_bind(run->session, port->info->name, &tensor);
    return status == RNNC_OK || fail(run, status, NULL);
}

/// One chunk of an input to the device.
static bool send_chunk(Run *run, Port *port, unsigned char *chunk, int64_t first, int64_t timesteps)
{
    if (port == run->masks.lengths)
        masks_cut_lengths(port, first, timesteps, (int32_t *)(void *)chunk);
    else
        port_copy(port, chunk, first, timesteps, true);
    rnnc_status status =
        rnnc_device_write(run->session, port->device, chunk, port_bytes(port, timesteps));
    return status == RNNC_OK ? bind(run, port, timesteps) : fail(run, status, NULL);
}

/// One chunk of an output from the device.
static bool fetch_chunk(Run *run, Port *port, unsigned char *chunk, int64_t first,
                        int64_t timesteps)
{
    rnnc_status status =
        rnnc_device_read(run->session, chunk, port->device, port_bytes(port, timesteps));
    if (status != RNNC_OK)
        return fail(run, status, NULL);
    masks_keep_rows(&run->masks, port, first, timesteps, chunk);
    port_copy(port, chunk, first, timesteps, false);
    masks_repeat_steps(&run->masks, port, first, timesteps);
    return true;
}

/// The module's strings end with it; results do not.
static const char *name_copy(const Run *run, const rnnc_tensor_info *info)
{
    return arena_copy(run->call->arena, info->name, strlen(info->name));
}

/// Room for all states, once for all chunks.
static void list_states(Run *run, RunResult *out)
{
    Arena *arena = run->call->arena;
    size_t count = rnnc_module_tensor_count(run->module);
    out->states = ARENA_ARRAY(arena, NpzMember, count + 1);
    for (size_t i = 0; i < count; i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(run->module, i);
        if (info->role != RNNC_ROLE_STATE)
            continue;
        int64_t elems = run->batch * info->dims[1];
        const unsigned char *data = arena_alloc(arena, sizeof(float) * (size_t)elems);
        out->states[out->state_count++] = (NpzMember){
            name_copy(run, info), {NPY_FLOAT32, 2, {run->batch, info->dims[1]}, elems, data}};
    }
}

/// All states of the session as they are now.
static bool get_states(Run *run, RunResult *out)
{
    for (int i = 0; i < out->state_count; i++) {
        const NpyArray *array = &out->states[i].array;
        rnnc_status status = rnnc_state_get(run->session, out->states[i].name,
                                            (float *)(uintptr_t)array->data, (size_t)array->elems);
        if (status != RNNC_OK)
            return fail(run, status, NULL);
    }
    return true;
}

/// The arrays are float32 in the arena.
static bool set_states(Run *run, const NpzMember *states, int count)
{
    for (int i = 0; i < count; i++) {
        const NpyArray *array = &states[i].array;
        rnnc_status status =
            rnnc_state_set(run->session, states[i].name, (const float *)(const void *)array->data,
                           (size_t)array->elems);
        if (status != RNNC_OK)
            return fail(run, status, NULL);
    }
    return true;
}

/// Runs the steps [first, first + timesteps) from `states` (their count may be 0: start values).
/// States are set after x is bound, since x tells the session their B.
static bool run_chunk(Run *run, unsigned char *chunk, int64_t first, int64_t timesteps,
                      const NpzMember *states, int state_count)
{
    for (int i = 0; i < run->input_count; i++)
        if (!send_chunk(run, &run->inputs[i], chunk, first, timesteps))
            return false;
    for (int i = 0; i < run->output_count; i++)
        if (!bind(run, &run->outputs[i], timesteps))
            return false;
    if (!set_states(run, states, state_count))
        return false;
    rnnc_status status = rnnc_run(run->session);
    if (status == RNNC_OK)
        status = rnnc_synchronize(run->session);
    if (status != RNNC_OK)
        return fail(run, status, "the run failed");
    for (int i = 0; i < run->output_count; i++)
        if (!fetch_chunk(run, &run->outputs[i], chunk, first, timesteps))
            return false;
    return true;
}

/// One member of --state, converted to float32.
static bool take_initial(Run *run, const char *path, const NpzMember *member)
{
    const rnnc_tensor_info *info = find_tensor(run, member->name);
    if (!info || info->role != RNNC_ROLE_STATE)
        return unknown_tensor(run, member->name, "state", RNNC_ROLE_STATE, RNNC_ROLE_STATE);
    const Port port = {.info = info, .batch_axis = 0, .time_axis = -1};
    if (!check_shape(run, path, &port, &member->array))
        return false;
    float *values = ARENA_ARRAY(run->call->arena, float, member->array.elems);
    npy_to_float(&member->array, values);
    NpzMember *taken = &run->initial[run->initial_count++];
    *taken = *member;
    taken->array.type = NPY_FLOAT32;
    taken->array.data = (const unsigned char *)values;
    return true;
}

/// States among the given arrays; those that are not there have their start values.
static bool take_given_states(Run *run)
{
    bool good = true;
    for (int i = 0; run->given && i < run->given->count; i++) {
        const rnnc_tensor_info *info = find_tensor(run, run->given->members[i].name);
        if (!info || info->role != RNNC_ROLE_STATE)
            continue;
        if (!run->initial)
            run->initial = ARENA_ARRAY(run->call->arena, NpzMember, run->given->count);
        good &= take_initial(run, run->given->path, &run->given->members[i]);
    }
    return good;
}

/// --state: every state of the module must be there with this B, and nothing else.
static bool read_initial(Run *run)
{
    const char *path = cli_value(run->call, "state");
    if (!path)
        return take_given_states(run);
    const Npz *archive = npz_open(run->call->arena, run->call->diags, path, (Span){0});
    if (!archive)
        return false;
    run->initial = ARENA_ARRAY(run->call->arena, NpzMember, archive->count + 1);
    bool good = true;
    for (int i = 0; i < archive->count; i++)
        good &= take_initial(run, path, &archive->members[i]);
    for (size_t i = 0; good && i < rnnc_module_tensor_count(run->module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(run->module, i);
        if (info->role == RNNC_ROLE_STATE && !npz_find(archive, info->name)) {
            diag_add(run->call->diags, DIAG_E0804, (Span){0}, "'%s' has no state '%s'", path,
                     info->name);
            good = false;
        }
    }
    return good;
}

static void name_variants(const Run *run)
{
    const char *layer;
    for (size_t i = 0; (layer = rnnc_session_layer(run->session, i)); i++) {
        const char *reason = NULL;
        const char *variant = rnnc_session_variant(run->session, layer, &reason);
        diag_add(run->call->diags, DIAG_N0801, (Span){0}, "layer '%s' ran %s on %s%s%s", layer,
                 variant ? variant : "nothing", rnnc_session_device(run->session),
                 reason && reason[0] ? ": " : "", reason ? reason : "");
    }
}

static bool run_all(Run *run, RunResult *out)
{
    const NpzMember *states = run->initial;
    int state_count = run->initial_count;
    list_states(run, out);
    size_t chunk_bytes = 1;
    for (int i = 0; i < run->input_count; i++)
        chunk_bytes += port_bytes(&run->inputs[i], run->chunk);
    for (int i = 0; i < run->output_count; i++)
        chunk_bytes += port_bytes(&run->outputs[i], run->chunk);
    unsigned char *chunk = arena_alloc(run->call->arena, chunk_bytes);
    for (int64_t first = 0; first < run->timesteps; first += run->chunk) {
        int64_t left = run->timesteps - first;
        int64_t timesteps = left < run->chunk ? left : run->chunk;
        if (!run_chunk(run, chunk, first, timesteps, states, state_count) || !get_states(run, out))
            return false;
        states = out->states;
        state_count = out->state_count;
    }
    out->outputs = ARENA_ARRAY(run->call->arena, NpzMember, run->output_count + 1);
    for (int i = 0; i < run->output_count; i++) {
        const Port *port = &run->outputs[i];
        NpyArray array = {NPY_FLOAT32, port->info->ndim, {0}, 1, port->host};
        for (int j = 0; j < port->info->ndim; j++) {
            array.dims[j] = port->dims[j];
            array.elems *= port->dims[j];
        }
        out->outputs[out->output_count++] = (NpzMember){name_copy(run, port->info), array};
    }
    return true;
}

bool module_run(CliCall *call, const GivenArrays *given, const NamedFile *wanted, int wanted_count,
                RunResult *out)
{
    Run run = {.call = call, .given = given};
    *out = (RunResult){0};
    if (!read_options(&run))
        return false;
    rnnc_status status = rnnc_module_open(call->operands[0], &run.module);
    if (status != RNNC_OK)
        return fail(&run, status, NULL);
    list_ports(&run);
    bool good = check_wanted(&run, wanted, wanted_count) && read_inputs(&run) &&
                read_initial(&run) && create_session(&run) &&
                make_room(&run, run.inputs, run.input_count) &&
                make_room(&run, run.outputs, run.output_count) && run_all(&run, out);
    if (good)
        name_variants(&run);
    for (int i = 0; i < run.input_count && run.session; i++)
        rnnc_device_free(run.session, run.inputs[i].device);
    for (int i = 0; i < run.output_count && run.session; i++)
        rnnc_device_free(run.session, run.outputs[i].device);
    if (run.session)
        rnnc_session_destroy(run.session);
    rnnc_module_close(run.module);
    return good;
}

const NpyArray *run_result_find(const RunResult *result, const char *name)
{
    for (int i = 0; i < result->output_count; i++)
        if (strcmp(result->outputs[i].name, name) == 0)
            return &result->outputs[i].array;
    for (int i = 0; i < result->state_count; i++)
        if (strcmp(result->states[i].name, name) == 0)
            return &result->states[i].array;
    return NULL;
}
