// Loss: softmax cross-entropy over y, against targets that the caller binds. It is fused with its
// gradient: one pass over the logits gives both, and where y is not bound the gradient takes the
// logits' own place, so that a step of training holds one [B, T, V] and no more.
//
//     forward: ... -> dense -> logits -> loss, gradient of the logits      backward: starts from it
#ifndef RNNC_RUNTIME_LOSS_H
#define RNNC_RUNTIME_LOSS_H

#include "session.h"

/// The facts of tensor `name` of the loss, "targets" or "loss", and where what is bound to it is
/// kept; NULL: the session has no such tensor. Makes room for the gradient at the first use.
rnnc_status rnnc_loss_find(rnnc_session *session, const char *name, rnnc_tensor_info *out_info,
                           rnnc_binding **out_binding);

/// Before a run: gives y the loss's own memory where targets are bound and y is not, and sees to
/// it that the targets are those of x's rows and steps. `*out_y` is y as it was; rnnc_loss_end puts
/// it back, also after a failure.
rnnc_status rnnc_loss_begin(rnnc_session *session, rnnc_binding *out_y);

/// After the layers of a run: the loss, and with `saves` the gradient of y.
rnnc_status rnnc_loss_take(rnnc_session *session, bool saves);
void rnnc_loss_end(rnnc_session *session, const rnnc_binding *y);

/// The gradient of y that the last forward pass has left for a run of that many rows and steps.
rnnc_binding rnnc_loss_gradient(const rnnc_session *session, int64_t batch, int64_t timesteps);

void rnnc_loss_destroy(rnnc_session *session);

#endif
