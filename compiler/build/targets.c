// Targets: see targets.h.
#include "build/targets.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#ifdef RNNC_CUDA
static const char default_words[] = "sm_90,cpu";
static const bool built_with_cuda = true;
#else
static const char default_words[] = "cpu";
static const bool built_with_cuda = false;
#endif

/// The number of "sm_NN", or 0.
static int arch_number(const char *word)
{
    size_t digits = strncmp(word, "sm_", 3) == 0 ? strspn(word + 3, "0123456789") : 0;
    return digits >= 2 && digits <= 3 && word[3 + digits] == '\0' ? atoi(word + 3) : 0;
}

static void add_arch(int arch, Targets *out)
{
    for (int i = 0; i < out->arch_count; i++)
        if (out->arches[i] == arch)
            return;
    if (out->arch_count < TARGET_ARCHES_MAX)
        out->arches[out->arch_count++] = arch;
}

static void add_word(Diags *diags, Span span, const char *word, Targets *out)
{
    int arch = arch_number(word);
    if (text_equal_ignoring_case(word, "cpu")) {
        out->cpu = true;
    } else if (arch) {
        add_arch(arch, out);
    } else {
        Diag *diag = diag_add(diags, DIAG_E0790, span, "unknown target '%s'", word);
        diag_help(diag, "a target is cpu or sm_NN, for instance sm_90; several: sm_90,cpu");
    }
}

static void add_list(Arena *arena, Diags *diags, const char *words, Targets *out)
{
    for (const char *at = words; *at;) {
        at += strspn(at, ", ");
        size_t length = strcspn(at, ", ");
        if (length)
            add_word(diags, (Span){0}, arena_copy(arena, at, length), out);
        at += length;
    }
}

bool targets_parse(Arena *arena, Diags *diags, const Spec *spec, const char *words, Targets *out)
{
    size_t errors = diags_error_count(diags);
    *out = (Targets){0};
    if (!words && spec->target_count == 0)
        words = default_words;
    if (words)
        add_list(arena, diags, words, out);
    for (int i = 0; !words && i < spec->target_count; i++)
        add_word(diags, spec->targets[i].span, spec->targets[i].text, out);
    if (diags_error_count(diags) == errors && out->arch_count == 0 && !out->cpu)
        diag_add(diags, DIAG_E0790, (Span){0}, "no target is named");
    return diags_error_count(diags) == errors;
}

bool targets_buildable(Diags *diags, const Targets *targets)
{
    if (built_with_cuda || targets->arch_count == 0)
        return true;
    Diag *diag = diag_add(diags, DIAG_E0791, (Span){0}, "this rnnc was built without CUDA");
    diag_help(diag,
              "for the CPU alone: --target cpu; for a GPU, build rnnc where the CUDA toolkit is "
              "installed");
    return false;
}
