#include "kernels/executor/passes.h"

#include "kernels/executor/cut_request.h"

namespace troupe::kernels {
namespace {

// What of them is beyond the bounds, if so.
std::string run_parts(const std::vector<RequestPart>& parts, ComingPages* coming, Reply& reply,
                      const OnePass& pass) {
  for (const RequestPart& part : parts) {
    const Request request{&part.plan, part.kv, nullptr, coming};
    Reply answer;
    if (std::string beyond = pass({&request, 1}, {&answer, 1}); !beyond.empty()) return beyond;
    for (std::size_t r = 0; r < part.readouts.size(); ++r)
      reply.readouts[part.readouts[r]] = std::move(answer.readouts[r]);
  }
  return "";
}

// In parts, smaller and smaller ones. Which tokens a repair chooses, and what their mean is, takes all of its
// prompt. What an attempt in vain has left in pages the next one writes again.
void run_cut(const Request& request, Reply& reply, std::string beyond, const OnePass& pass) {
  reply.readouts.resize(request.plan->readouts.size());
  if (!request.plan->repair.places.empty()) {
    reply.too_large = std::move(beyond) + "; a plan with a repair is not cut";
    return;
  }
  std::size_t parts_before = 1;
  for (std::size_t tokens = computed_tokens(request) / 2; tokens > 0; tokens /= 2) {
    const std::vector<RequestPart> parts = cut_request(request, tokens);
    if (parts.size() == parts_before) continue;
    parts_before = parts.size();
    if (run_parts(parts, request.coming, reply, pass).empty()) return;
  }
  reply.too_large = std::move(beyond);
}

}  // namespace

void run_in_passes(std::span<const Request> batch, std::span<Reply> replies, const OnePass& pass) {
  for (Reply& reply : replies) reply.too_large.clear();
  std::string beyond = pass(batch, replies);
  if (beyond.empty()) return;
  if (batch.size() == 1) return run_cut(batch[0], replies[0], std::move(beyond), pass);
  const std::size_t half = batch.size() / 2;
  run_in_passes(batch.first(half), replies.first(half), pass);
  run_in_passes(batch.subspan(half), replies.subspan(half), pass);
}

}  // namespace troupe::kernels
