// Default operations: the step of default_cell.cuh an operation at a time, as the compiler prints
// it for loop.cu.
#define RNN_INPUTS 64

template <class Column, class States>
RNN_INLINE rnn_f rnn_operate(int number, Column input, Column product, Column bias,
                             Column recurrent_bias, Column parameter, States state, Column value)
{
    switch (number) {
    case 0:
        return input[0] + product[0];
    case 1:
        return value[0] + bias[0];
    case 2:
        return rnn_sigmoid(value[1]);
    case 3:
        return input[1] + product[1];
    case 4:
        return value[3] + bias[1];
    case 5:
        return rnn_sigmoid(value[4]);
    case 6:
        return input[2] + product[2];
    case 7:
        return value[6] + bias[2];
    case 8:
        return rnn_gt(value[7], rnn_const(0.0f));
    case 9:
        return rnn_const(0.05f) * value[7];
    case 10:
        return rnn_select(value[8], value[7], value[9]);
    case 11:
        return input[3] + product[3];
    case 12:
        return value[11] + bias[3];
    case 13:
        return rnn_sigmoid(value[12]);
    case 14:
        return value[5] * state[1];
    case 15:
        return value[2] * value[10];
    case 16:
        return value[14] + value[15];
    case 17:
        return rnn_gt(value[16], rnn_const(0.0f));
    case 18:
        return rnn_const(0.05f) * value[16];
    case 19:
        return rnn_select(value[17], value[16], value[18]);
    case 20:
        return value[13] * value[19];
    }
    return 0.0f;
}
#define RNN_OPERATIONS 21
#define RNN_RESULTS 20, 16
