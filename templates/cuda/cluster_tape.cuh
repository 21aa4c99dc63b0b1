// What persistent_cluster.cu keeps in training, included by it: vectors of each phase, states after
// each step, and with recurrent dropout what R multiplies. All stores are behind what the step
// sends.
#ifndef RNN_CLUSTER_TAPE_CUH
#define RNN_CLUSTER_TAPE_CUH

/// With recurrent dropout, the copy of a value that a product with R has taken.
RNN_INLINE void rnn_keep_operand(const RnnRun &run, const RnnThread &self, int reader, int step,
                                 int item, float value)
{
    const int size = rnn_phases[reader].operand_size;
    const int group = item / (RNN_ROW_TILES * RNN_COLUMNS);
    const int row = rnn_row_of(self, item / RNN_COLUMNS % RNN_ROW_TILES, item % RNN_COLUMNS);
    const int unit = rnn_unit_of(self, size, group);
    if (run.operands[reader] && group < rnn_groups(size) && unit < size && row < self.rows)
        run.operands[reader][(step * run.batch + self.first_row + row) * size + unit] =
            value * self.scale[item];
}

/// The pointwise part of one item that saves, and its stores. Steps that the row does not take save
/// zeros. A run that saves nothing mixes states by zoneout's rates and draws nothing.
template <int Phase>
RNN_INLINE void rnn_pointwise_kept(const RnnRun &run, const RnnThread &self, int step, int item,
                                   const float *input, const float *product, const float *carries,
                                   float *carries_out, float *next)
{
    const int group = item / (RNN_ROW_TILES * RNN_COLUMNS),
              tile = item / RNN_COLUMNS % RNN_ROW_TILES;
    const int row = rnn_row_of(self, tile, item % RNN_COLUMNS);
    const bool takes = step < self.steps[tile][item % RNN_COLUMNS];
    const float *state = self.state[item];
    float saved[RNN_SOME(RNN_SAVED)] = {}, draw[RNN_SOME(RNN_STATES)] = {};
    if (RNN_ZONEOUT && !run.saved) {
        rnn_pointwise<Phase>(input, product, self.bias[group], self.recurrent_bias[group],
                             self.parameter[group], state, carries, nullptr, carries_out, next);
        return;
    }
    if (RNN_ZONEOUT && takes)
        rnn_draw_zoneout(run.seed, self.first_row + row, rnn_time(run, self, row, step),
                         rnn_unit_of(self, rnn_phases[Phase].size, group), draw);
    rnn_saving<Phase>(input, product, self.bias[group], self.recurrent_bias[group],
                      self.parameter[group], state, carries, nullptr, draw, carries_out, next,
                      saved);
    if (!run.saved || row >= self.rows)
        return;
    float *to = run.saved + (step * run.batch + self.first_row + row) * RNN_SAVED_STRIDE;
#pragma unroll
    for (int i = 0; i < RNN_SAVED; i++) {
        const int size = rnn_saved_sizes[i], unit = rnn_unit_of(self, size, group);
        if (rnn_saved_phases[i] == Phase && group < rnn_groups(size) && unit < size)
            to[rnn_sum_sizes(rnn_saved_sizes, i) + unit] = takes ? saved[i] : 0.0f;
    }
#pragma unroll
    for (int reader = 0; reader < RNN_PHASE_COUNT && RNN_RECURRENT_DROPOUT; reader++)
        if (rnn_feeds(Phase, reader) && !rnn_phases[reader].operand_is_state)
            rnn_keep_operand(run, self, reader, step, item,
                             takes ? carries_out[rnn_phases[reader].operand] : 0.0f);
}

/// The states after step `step`.
RNN_INLINE void rnn_keep_states(const RnnRun &run, const RnnThread &self, int step)
{
    if (!run.saved)
        return;
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++) {
        const int group = i / (RNN_ROW_TILES * RNN_COLUMNS);
        const int row = rnn_row_of(self, i / RNN_COLUMNS % RNN_ROW_TILES, i % RNN_COLUMNS);
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++) {
            const int size = rnn_state_sizes[s], unit = rnn_unit_of(self, size, group);
            if ((RNN_STATES_SAVED >> s & 1) && group < rnn_groups(size) && unit < size &&
                row < self.rows)
                run.kept[s][((step + 1) * run.batch + self.first_row + row) * size + unit] =
                    self.state[i][s];
        }
#pragma unroll
        for (int reader = 0; reader < RNN_PHASE_COUNT && RNN_RECURRENT_DROPOUT; reader++)
            if (rnn_phases[reader].row_count > 0 && rnn_phases[reader].operand_is_state)
                rnn_keep_operand(run, self, reader, step + 1, i,
                                 self.state[i][rnn_phases[reader].operand]);
    }
}

#endif
