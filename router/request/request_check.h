#pragma once
// What a request has to be before anything is done for it. Each check answers with the refusal that the
// client gets, or with nothing if the request is sound. Whether users and items exist is the feature port's
// to say.
#include <cstdint>
#include <optional>
#include <string_view>

#include "router/request/prompt.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

struct RequestLimits {
  std::uint32_t candidates_max = 1'000;
  std::uint32_t width_max = 512;  // of a beam search
  std::uint32_t completion_tokens_max = 256;
  std::uint32_t score_items_max = 1'024;
  std::uint32_t score_labels_max = 256;
  std::uint32_t request_tokens_max = 262'144;  // of a plan, all segments together
  std::uint32_t history_max = 10'000;          // events, or tokens, of a profile
  std::uint32_t id_bytes_max = 512;            // of a tenant, user or item id
  // Of a prompt's tokens the largest share that a policy which weighs plans may leave approximate where the
  // request does not say. 0: an approximate answer is for those who ask for one.
  double approximate = 0;
  // Of one forward pass on a worker, as it counts itself: computed tokens, and bytes for each. 0: not known
  // here.
  std::uint64_t pass_tokens_max = 0, token_bytes = 0;
};

// "exact", "wait" or "behind"; "": as configured.
std::optional<Freshness> find_freshness(std::string_view name);

std::optional<Refusal> find_fault(const RankRequest& request, const PromptForm& form,
                                  const RequestLimits& limits);
std::optional<Refusal> find_fault(const GenerateRequest& request, const PromptForm& form,
                                  const RequestLimits& limits);
std::optional<Refusal> find_fault(const CompleteRequest& request, const PromptForm& form,
                                  const RequestLimits& limits);
std::optional<Refusal> find_fault(const ScoreRequest& request, const PromptForm& form,
                                  const RequestLimits& limits);
std::optional<Refusal> find_fault(const PutUser& put, const PromptForm& form, const RequestLimits& limits);
std::optional<Refusal> find_fault(const AppendEvents& events, const PromptForm& form,
                                  const RequestLimits& limits);
std::optional<Refusal> find_fault(const GetUser& wanted, const PromptForm& form, const RequestLimits& limits);
std::optional<Refusal> find_fault(const GetItem& wanted, const PromptForm& form, const RequestLimits& limits);
std::optional<Refusal> find_fault(const DeleteUser& remove, const PromptForm& form,
                                  const RequestLimits& limits);
std::optional<Refusal> find_fault(const PutItem& put, const PromptForm& form, const RequestLimits& limits);
std::optional<Refusal> find_fault(const DeleteItem& remove, const PromptForm& form,
                                  const RequestLimits& limits);

}  // namespace troupe::router
