// Reference pages: prints one page of docs/ from the tables of the compiler, so that the pages
// cannot differ from the program. `scripts/docs.sh` writes them; a test compares them.
//
//     docs_pages spec|diagnostics|activations
#include <stdio.h>
#include <string.h>

#include "cell/activation.h"
#include "spec/spec.h"

static void print_diagnostics(Text *out)
{
    text_add(out, "# Diagnostics\n\n"
                  "Every message of `rnnc` ends in its code; `rnnc explain CODE` prints the entry "
                  "below.\nE codes are errors, W codes warnings, N codes notes.\n");
    for (int code = 0; code < DIAG_COUNT; code++)
        text_addf(out, "\n## %s: %s\n\n%s\n", diag_name((DiagCode)code), diag_title((DiagCode)code),
                  diag_explanation((DiagCode)code));
}

static void print_activations(Text *out)
{
    text_add(out, "# Activations\n\nAs `rnnc activations` prints them.\n\n```\n");
    activation_print_table(out);
    text_add(out, "```\n");
}

static const struct {
    const char *name;
    void (*print)(Text *out);
} pages[] = {
    {"spec", spec_print_reference},
    {"diagnostics", print_diagnostics},
    {"activations", print_activations},
};

int main(int argument_count, char **arguments)
{
    const char *wanted = argument_count == 2 ? arguments[1] : "";
    Arena *arena = arena_create();
    Text out = {.arena = arena};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (strcmp(pages[i].name, wanted) == 0)
            pages[i].print(&out);
    fputs(text_string(&out), stdout);
    int result = out.length > 0 ? 0 : 2;
    if (result)
        fprintf(stderr, "docs_pages: pages are spec, diagnostics, activations\n");
    arena_destroy(arena);
    return result;
}
