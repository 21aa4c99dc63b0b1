// activations: prints the table of activations.
#include "cli/cli.h"

#include "cell/activation.h"

int cli_activations(CliCall *call)
{
    Text text = {.arena = call->arena};
    activation_print_table(&text);
    fputs(text_string(&text), stdout);
    return EXIT_DONE;
}
