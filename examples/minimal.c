// Loads a compiled model and runs it once on the CPU: minimal MODEL.so. The model here takes 100
// steps of 8 features and gives 8 numbers.
#include <stdio.h>

#include "rnnc/rnnc.h"

int main(int argument_count, char **arguments)
{
    float x[1][100][8] = {{{1.0f}}}, y[1][8];
    DLTensor x_tensor = {.data = x,
                         .device = {kDLCPU, 0},
                         .ndim = 3,
                         .dtype = {kDLFloat, 32, 1},
                         .shape = (int64_t[]){1, 100, 8}};
    DLTensor y_tensor = {.data = y,
                         .device = {kDLCPU, 0},
                         .ndim = 2,
                         .dtype = {kDLFloat, 32, 1},
                         .shape = (int64_t[]){1, 8}};
    rnnc_module *module = NULL;
    rnnc_session *session = NULL;
    if (rnnc_module_open(argument_count > 1 ? arguments[1] : "leaky.so", &module) != RNNC_OK ||
        rnnc_session_create(module, &(rnnc_session_options){.device = "cpu"}, &session) !=
            RNNC_OK ||
        rnnc_bind(session, "x", &x_tensor) != RNNC_OK ||
        rnnc_bind(session, "y", &y_tensor) != RNNC_OK || rnnc_run(session) != RNNC_OK) {
        fprintf(stderr, "%s\n", session ? rnnc_session_error(session) : rnnc_last_error());
        return 1;
    }
    for (int i = 0; i < 8; i++)
        printf("%9.6f\n", y[0][i]);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
    return 0;
}
