// GeneratedTrace: makes traces from given distributions.
#include "deploy/lab/traces/trace_makers.h"
#include "sim/base/random.h"

namespace troupe::deploy {

GeneratedTrace::GeneratedTrace(GeneratedTraceOptions options)
    : options_(std::move(options)),
      random_(options_.common.seed, 0x9e4e),
      users_(options_.users, options_.user_exponent),
      items_(options_.items, options_.item_exponent),
      arrivals_(options_.common.arrivals, options_.common.per_second, options_.common.seed),
      returns_(options_.common.returns, options_.common.seed),
      candidates_(options_.items) {}

bool GeneratedTrace::next(TracedRequest& request) {
  request.at = arrivals_.next();
  const auto back = returns_.due(request.at);
  const std::uint32_t number = back ? *back : draw_user();
  request.tenant = options_.common.tenant;
  request.user = "u" + std::to_string(number);
  request.events.clear();
  const auto [at, first] = users_seen_.try_emplace(number);
  User& user = at->second;
  if (first) begin_user(number, request);
  if (user.taken) request.events.push_back(item_id(*user.taken));
  if (first || user.taken) ++user.profile;
  user.taken.reset();
  request.profile = user.profile;
  candidates_.begin();
  const auto& chosen = candidates_.draw(random_, options_.common.candidates, std::nullopt,
                                        [this] { return static_cast<std::uint32_t>(items_.draw(random_)); });
  request.candidates.clear();
  for (const std::uint32_t item : chosen) request.candidates.push_back(item_id(item));
  request.truth.clear();
  if (sim::chance(random_, 1 / options_.common.views)) {
    user.taken = chosen[random_.below(chosen.size())];
    request.truth = item_id(*user.taken);
  }
  apply_request_kind(options_.common, request);
  returns_.leave(number, request.at, options_.away ? options_.away(number) : 1);
  return true;
}

std::uint32_t GeneratedTrace::draw_user() {
  while (true) {
    const auto number = static_cast<std::uint32_t>(users_.draw(random_));
    if (!options_.kept || sim::chance(random_, options_.kept(number))) return number;
  }
}

// Draws a user's initial history, which depends only on the seed and the user's number.
void GeneratedTrace::begin_user(std::uint32_t number, TracedRequest& request) {
  RandomStream random(options_.common.seed, sim::mix(0x9e4f, number));
  const double events = draw_log_normal(random, options_.history_median, options_.history_sigma);
  for (double e = 1; e <= std::min(events, history_events_max); ++e)
    request.events.push_back(item_id(static_cast<std::uint32_t>(items_.draw(random))));
}

std::string GeneratedTrace::item_id(std::uint32_t item) const {
  return options_.catalog.empty() ? "i" + std::to_string(item) : options_.catalog[item];
}

void apply_request_kind(const TraceMakerOptions& common, TracedRequest& request) {
  request.generates = common.generates;
  if (!common.generates) return;
  request.candidates.clear();
  request.top_k = common.top_k;
  request.width = common.width;
}

}  // namespace troupe::deploy
