// Lets several models share one node. It stands between a model's actor and its host, and
// translates actor ids, owners of blocks and block sizes. The actor works as if its model were
// the only one.
#include "runtime/host/model_actor.h"

#include <utility>

#include "runtime/host/model_metrics.h"

namespace troupe {

void ModelActor::step(Instant now, Event&& event, Effects& effects) {
  Effects own;
  auto* received = std::get_if<Received>(&event);
  const bool of_model = received && is_of_model(received->from.role);
  if (of_model && config_.actor_ids.model_of(received->from.node) != config_.index)
    return effects.count(Metric::protocol_errors);
  if (of_model && config_.index > 0) received->from.node = config_.actor_ids.node_of(received->from.node);
  core_->step(now, std::move(event), own);
  for (Effects::Effect& effect : own.list) pass(std::move(effect), effects);
}

void ModelActor::pass(Effects::Effect effect, Effects& effects) const {
  if (auto* send = std::get_if<Effects::Send>(&effect)) {
    if (is_of_model(send->to.role)) send->to.node = number_at(send->to.node);
    translate(send->message);
  } else if (auto* line = std::get_if<Effects::Log>(&effect)) {
    line->fields.push_back({"model", config_.model});
  } else if (const auto* count = std::get_if<Effects::Count>(&effect)) {
    if (config_.metrics && is_of_model(count->metric))
      return config_.metrics->record(count->metric, count->amount, count->label_value, count->trace);
  }
  effects.list.push_back(std::move(effect));
}

// Translates the model's messages about blocks, and its status.
void ModelActor::translate(Message& message) const {
  if (auto* lookup = std::get_if<LookupBlocks>(&message)) {
    put_owner(lookup->user);
    for (BlockQuery& block : lookup->blocks) block.tokens = pages_of(block.tokens);
  } else if (auto* ask = std::get_if<AcquireBlocks>(&message)) {
    for (BlockWant& want : ask->wants) {
      put_owner(want.owner);
      want.tokens = pages_of(want.tokens);
    }
    for (BlockUse& use : ask->retention.elsewhere) use.tokens = pages_of(use.tokens);
  } else if (auto* forget = std::get_if<Forget>(&message)) {
    put_owner(forget->owner);
    // Fewer pages imply fewer tokens; a block with equally many pages may be kept needlessly.
    forget->below = pages_of(forget->below);
  } else if (auto* status = std::get_if<StatusReply>(&message)) {
    status->fields.push_back({"model", config_.model});
  }
}

// Keeps an empty owner empty. Names of models never contain '/'.
void ModelActor::put_owner(std::string& owner) const {
  if (!owner.empty()) owner.insert(0, config_.model + '/');
}

std::uint32_t ModelActor::pages_of(std::uint32_t tokens) const {
  return tokens / config_.page_tokens + (tokens % config_.page_tokens != 0);
}

}  // namespace troupe
