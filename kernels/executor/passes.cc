// Runs a batch in as few passes as its size allows. A batch that exceeds a pass's limits is halved,
// down to single requests, which are cut into parts.
#include "kernels/executor/passes.h"

#include "kernels/executor/split_request.h"

namespace troupe::kernels {
namespace {

// Runs the parts in order. Returns "" or, for the first part that does not fit, the limit that it
// exceeds.
std::string run_parts(const std::vector<RequestPart>& parts, PagesInFlight* in_flight, Reply& reply,
                      const OnePass& pass) {
  for (const RequestPart& part : parts) {
    const Request request{&part.plan, part.kv, nullptr, in_flight};
    Reply answer;
    if (std::string beyond = pass({&request, 1}, {&answer, 1}); !beyond.empty()) return beyond;
    for (std::size_t r = 0; r < part.readouts.size(); ++r)
      reply.readouts[part.readouts[r]] = std::move(answer.readouts[r]);
  }
  return "";
}

// Runs the request in parts, halving their size until all fit. A repair needs its whole prompt to
// choose tokens and to compute means, so it is not cut. A later attempt overwrites pages that a
// failed one filled.
void run_cut(const Request& request, Reply& reply, std::string beyond, const OnePass& pass) {
  reply.readouts.resize(request.plan->readouts.size());
  if (!request.plan->repair.reused_spans.empty()) {
    reply.too_large = std::move(beyond) + "; a plan with a repair cannot be computed in parts";
    return;
  }
  std::size_t parts_before = 1;
  for (std::size_t tokens = computed_tokens(request) / 2; tokens > 0; tokens /= 2) {
    const std::vector<RequestPart> parts = split_request(request, tokens);
    if (parts.size() == parts_before) continue;
    parts_before = parts.size();
    if (run_parts(parts, request.in_flight, reply, pass).empty()) return;
  }
  reply.too_large = std::move(beyond);
}

}  // namespace

std::string validate_tokens(std::size_t tokens, std::size_t tokens_max) {
  if (tokens <= tokens_max) return "";
  return std::to_string(tokens) + " computed tokens; expected at most " + std::to_string(tokens_max) +
         " in one pass";
}

void start_replies(std::span<const Request> requests, std::vector<Reply>& replies) {
  replies.resize(requests.size());
  for (Reply& reply : replies) reply.beams.clear(), reply.chosen.clear();
}

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
