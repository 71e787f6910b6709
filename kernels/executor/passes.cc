#include "kernels/executor/passes.h"

namespace troupe::kernels {

void run_in_passes(std::span<const Request> batch, std::span<Reply> replies, const OnePass& pass) {
  for (Reply& reply : replies) reply.too_large.clear();
  const std::string beyond = pass(batch, replies);
  if (beyond.empty()) return;
  if (batch.size() == 1) {
    replies[0].too_large = beyond;
    return;
  }
  const std::size_t half = batch.size() / 2;
  run_in_passes(batch.first(half), replies.first(half), pass);
  run_in_passes(batch.subspan(half), replies.subspan(half), pass);
}

}  // namespace troupe::kernels
