// The CPU cell with heads whose units fill no whole vector, going backwards, with its recurrent
// operand dropped.
#define TEST_INPUTS 5
#define TEST_UNITS 22
#define TEST_HEADS 2
#define TEST_REVERSED 1
#define TEST_DROPOUT 1
#include "unit/cpu_cell_checks.h"

int main(void)
{
    return cell_checks("cpu_cell_heads");
}
