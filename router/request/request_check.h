#pragma once
// Validates requests before anything is done for them. Each check returns the refusal for the
// client, or nothing if the request is valid. The feature port checks whether users and items
// exist.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "router/request/prompt.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"
#include "runtime/actor/row_rules.h"

namespace troupe::router {

struct RequestLimits {
  std::uint32_t candidates_max = 1'000;
  std::uint32_t width_max = 512;  // of a beam search
  std::uint32_t completion_tokens_max = 256;
  std::uint32_t score_items_max = 1'024;
  std::uint32_t score_labels_max = 256;
  std::uint32_t request_tokens_max = 262'144;     // of all segments of a plan together
  std::uint32_t history_max = 10'000;             // events or tokens of a profile
  std::uint32_t id_bytes_max = row_id_bytes_max;  // of a tenant, user or item id
  // Default for requests that do not say: maximum share of a prompt's tokens that a policy which
  // weighs plans may leave approximate. 0 = approximate answers only on request.
  double approximate = 0;
  UnknownUser unknown_user = UnknownUser::refuse;  // for requests that do not say
  // Limits of one forward pass on a worker, in the worker's own counting: computed tokens, and
  // bytes per token. 0 = unknown here.
  std::uint64_t pass_tokens_max = 0, token_bytes = 0;
};

std::optional<Refusal> validate(const RankRequest& request, const PromptForm& form,
                                const RequestLimits& limits);
std::optional<Refusal> validate(const GenerateRequest& request, const PromptForm& form,
                                const RequestLimits& limits);
std::optional<Refusal> validate(const CompleteRequest& request, const PromptForm& form,
                                const RequestLimits& limits);
std::optional<Refusal> validate(const ScoreRequest& request, const PromptForm& form,
                                const RequestLimits& limits);
std::optional<Refusal> validate(const EmbedRequest& request, const PromptForm& form,
                                const RequestLimits& limits);
std::optional<Refusal> validate(const PutUser& put, const PromptForm& form, const RequestLimits& limits);
std::optional<Refusal> validate(const AppendEvents& events, const PromptForm& form,
                                const RequestLimits& limits);
std::optional<Refusal> validate(const GetUser& wanted, const PromptForm& form, const RequestLimits& limits);
std::optional<Refusal> validate(const GetItem& wanted, const PromptForm& form, const RequestLimits& limits);
std::optional<Refusal> validate(const DeleteUser& remove, const PromptForm& form,
                                const RequestLimits& limits);
std::optional<Refusal> validate(const PutItem& put, const PromptForm& form, const RequestLimits& limits);
std::optional<Refusal> validate(const DeleteItem& remove, const PromptForm& form,
                                const RequestLimits& limits);

// Refusal of a request for a user without a profile. It names the tenant, to whom the id belongs.
Refusal user_without_profile(const std::string& user, const std::string& tenant);
// Returns true if a user that is not stored is answered as one without events.
bool is_cold_allowed(UnknownUser unknown, const RequestLimits& limits);

}  // namespace troupe::router
