// The CPU cell as it is where registers are wide, whatever this machine has: then a single row
// takes W*x of later steps along with R*h. Units enough for that, and no multiple of the lanes.
#pragma GCC diagnostic ignored "-Wpsabi"
#define RNN_LANES 16
#define TEST_INPUTS 37
#define TEST_UNITS 130
#define TEST_HEADS 1
#define TEST_REVERSED 0
#define TEST_DROPOUT 0
#include "unit/cpu_cell_checks.h"

int main(void)
{
    return cell_checks("cpu_cell");
}
