// Hashes the content of requests, so that every router recognises the same request again. The
// router uses the hash to remember requests that may have killed a worker. Also places users in the
// order in which they move to a new model.
#include "router/fleet/fingerprint.h"

#define XXH_STATIC_LINKING_ONLY  // allows the state on the stack
#include <xxhash.h>

#include <string_view>
#include <vector>

namespace troupe::router {
namespace {

class Fingerprint {
 public:
  explicit Fingerprint(std::string_view kind) {
    XXH3_INITSTATE(&state_);
    XXH3_64bits_reset(&state_);
    add(kind);
  }
  void add(std::uint64_t number) { XXH3_64bits_update(&state_, &number, sizeof number); }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    XXH3_64bits_update(&state_, text.data(), text.size());
  }
  void add(const std::vector<Token>& tokens) {
    add(std::uint64_t{tokens.size()});
    XXH3_64bits_update(&state_, tokens.data(), tokens.size() * sizeof(Token));
  }
  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

// Adds the history that a request may have in place of a user.
template <class Request>
void add_own_history(Fingerprint& print, const Request& request) {
  for (const std::string& item : request.history) print.add(item);
  if (!request.history_tokens.empty()) print.add(request.history_tokens);
  if (!request.event_features.empty()) print.add(std::uint64_t{request.history.size()});
  for (const Feature& feature : request.event_features) {
    print.add(feature.name);
    for (const std::int64_t value : feature.values) print.add(static_cast<std::uint64_t>(value));
  }
}

}  // namespace

std::uint64_t fingerprint(const RankRequest& request, std::uint64_t profile_version) {
  Fingerprint print("rank");
  print.add(request.tenant);
  print.add(request.user);
  print.add(profile_version);
  if (request.scenario > 0) print.add(std::uint64_t{request.scenario});
  print.add(std::uint64_t{request.candidates.size()});
  for (const std::string& candidate : request.candidates) print.add(candidate);
  add_own_history(print, request);
  return print.value();
}

std::uint64_t fingerprint(const GenerateRequest& request, std::uint64_t profile_version) {
  Fingerprint print("generate");
  print.add(request.tenant);
  print.add(request.user);
  print.add(profile_version);
  print.add(std::uint64_t{request.top_k} << 32 | request.width);
  print.add(static_cast<std::uint64_t>(request.normalised) << 2 | std::uint64_t{request.exclude_seen} << 1 |
            std::uint64_t{request.among_allowed});
  for (const std::vector<std::string>* list : {&request.allow, &request.deny}) {
    print.add(std::uint64_t{list->size()});
    for (const std::string& item : *list) print.add(item);
  }
  add_own_history(print, request);
  return print.value();
}

std::uint64_t fingerprint(const CompleteRequest& request) {
  Fingerprint print("complete");
  print.add(request.tenant);
  print.add(request.prompt);
  print.add(std::uint64_t{request.n} << 32 | request.beam_width);
  print.add(std::uint64_t{request.max_tokens} << 1 | std::uint64_t{request.items});
  return print.value();
}

std::uint64_t fingerprint(const ScoreRequest& request) {
  Fingerprint print("score");
  print.add(request.tenant);
  print.add(request.query);
  print.add(request.label_tokens);
  print.add(std::uint64_t{request.items.size()});
  for (const TokenList& item : request.items) print.add(item.tokens);
  return print.value();
}

std::uint64_t fingerprint(const EmbedRequest& request, std::uint64_t profile_version) {
  Fingerprint print("embed");
  print.add(request.tenant);
  print.add(request.user);
  print.add(profile_version);
  print.add(std::uint64_t{request.texts.size()});
  for (const TokenList& text : request.texts) print.add(text.tokens);
  add_own_history(print, request);
  return print.value();
}

std::uint32_t share_position(std::uint64_t home, std::string_view next_model) {
  Fingerprint print("share");
  print.add(home);
  print.add(next_model);
  return static_cast<std::uint32_t>(print.value() % Versions::all_users);
}

}  // namespace troupe::router
