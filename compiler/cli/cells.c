// cells: prints the table of built-in cells.
#include "cli/cli.h"

#include "cell/cell.h"

int cli_cells(CliCall *call)
{
    Text text = {.arena = call->arena};
    cell_print_table(call->arena, &text);
    fputs(text_string(&text), stdout);
    return EXIT_DONE;
}
