// Whether the buffers through which the CTAs of a group exchange operands are safe: an operand has
// two, for even and odd epochs, and nobody asks before writing one again.
#ifndef RNN_EXCHANGE_ORDER_CUH
#define RNN_EXCHANGE_ORDER_CUH

#include "cuda/cell.cuh"

/// The phase that makes the operand of `reader`.
constexpr __device__ int rnn_sender(int reader)
{
    int sender = 0;
    while (sender + 1 < RNN_PHASE_COUNT && !rnn_feeds(sender, reader))
        sender++;
    return sender;
}

/// Whether all CTAs have multiplied a buffer when any fills it again, two epochs later: it has
/// received something that each of them sent after that product. `all_send`: whether the product of
/// a phase waits for every CTA.
constexpr __device__ bool rnn_is_ordered(bool (*all_send)(int phase))
{
    for (int reader = 0; reader < RNN_PHASE_COUNT; reader++) {
        bool waits = rnn_phases[reader].row_count == 0;
        for (int p = 0; p < RNN_PHASE_COUNT; p++) {
            const bool sent_after = !rnn_phases[p].operand_is_state || rnn_sender(p) >= reader;
            const bool received = p <= rnn_sender(reader);
            if (all_send(p))
                waits = waits || (rnn_phases[reader].operand_is_state ? received && sent_after
                                                                      : received || sent_after);
        }
        if (!waits)
            return false;
    }
    return true;
}

#endif
