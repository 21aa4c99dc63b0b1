// What layers without weights give code.h in training: nothing is saved, and no scratch. They
// define rnn_backward before they include this.
#ifndef RNN_WEIGHTLESS_BACKWARD_H
#define RNN_WEIGHTLESS_BACKWARD_H

static size_t rnn_no_bytes(int64_t batch, int64_t timesteps)
{
    (void)batch, (void)timesteps;
    return 0;
}

static const rnnc_cpu_training rnn_training = {rnn_no_bytes, rnn_no_bytes, rnn_backward};

#endif
