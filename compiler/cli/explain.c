// explain: `rnnc explain E0204` prints what a diagnostic means; any other operand is a model.
#include "cli/cli.h"

#include <ctype.h>
#include <string.h>

static bool is_code(const char *word)
{
    if (strlen(word) != 5 || !strchr("EWNewn", word[0]))
        return false;
    for (int i = 1; i < 5; i++)
        if (!isdigit((unsigned char)word[i]))
            return false;
    return true;
}

int cli_explain(CliCall *call)
{
    const char *word = call->operands[0];
    if (!is_code(word))
        return cli_explain_model(call);
    DiagCode code = diag_find(word);
    if (code == DIAG_COUNT) {
        diag_add(call->diags, DIAG_E0801, (Span){0}, "there is no diagnostic '%s'", word);
        return EXIT_DIAGNOSTICS;
    }
    printf("%s: %s\n\n%s\n", diag_name(code), diag_title(code), diag_explanation(code));
    return EXIT_DONE;
}
