#pragma once
// Watches whether the feature store can answer: it periodically asks the port for the catalog's
// first item. If the store is away or the catalog is empty, every ranking would be refused.
// Readiness reports this, so that load balancers learn of it before clients do. A port may answer as
// known last while the store is away (features.on_outage): the router is then ready, but degraded.
#include <string>

#include "router/fleet/episode_log.h"
#include "router/fleet/step.h"
#include "router/fleet/store_episode.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

struct FeatureWatchConfig {
  Duration every{0};        // period of the check; 0 = no check, always ready
  bool needs_items = true;  // an empty catalog counts as an obstacle
};

class FeatureWatch {
 public:
  explicit FeatureWatch(FeatureWatchConfig config) : config_(config) {}

  void tick(Step step) {
    if (config_.every.us <= 0 || job_ != 0 || step.now < next_) return;
    step.effects.start(job_ = step.next_id++, ListItems{0, 1});
  }
  // Returns true if the job belongs to this watch.
  bool on_done(Step step, std::uint64_t job, const JobResult& result) {
    if (job_ == 0 || job != job_) return false;
    job_ = 0;
    next_ = step.now + config_.every;
    const auto* list = std::get_if<ItemList>(&result);
    note_stale(step, list ? list->stale : "");
    const Refusal outage{RefusalKind::unavailable, "features_unavailable", stale_};
    episode_.note(step, stale_.empty() ? std::get_if<Refusal>(&result) : &outage);
    note(step, obstacle_in(result));
    return true;
  }
  // Returns why no ranking can be answered; "" = no known reason.
  std::string obstacle() const {
    if (config_.every.us <= 0) return "";
    return known_ ? obstacle_.why : "the catalog has not been read yet";
  }
  // Returns why answers are as known last; "" = they are as in the store, or there are none.
  const std::string& stale() const { return stale_; }

 private:
  struct Obstacle {
    std::string code, why;  // "" = no obstacle
  };
  Obstacle obstacle_in(const JobResult& result) const {
    if (const auto* refusal = std::get_if<Refusal>(&result)) return {refusal->code, refusal->what};
    const auto* list = std::get_if<ItemList>(&result);
    if (list && list->items.empty() && list->last && config_.needs_items)
      return {"no_items",
              "the catalog has no items; expected some (troupe import, or PUT /v1/items/{id}), or "
              "router.needs_items: false if only texts or tokens are ranked and scored"};
    return {};
  }
  void note_stale(Step step, const std::string& why) {
    if (why.empty() || !known_) fresh_ = step.now;
    if (why.empty()) {
      away_.ended(step);
    } else {
      away_.lasts(step,
                  {{"why", why}, {"meanwhile", "requests are answered as known last, writes are refused"}});
    }
    if (!why.empty() || !stale_.empty())
      step.effects.count(Metric::features_age, static_cast<double>((step.now - fresh_).us) / 1e6);
    stale_ = why;
  }
  // Logs each change of the error code once, even if the text varies.
  void note(Step step, Obstacle obstacle) {
    const std::string before = known_ ? obstacle_.code : "";
    known_ = true;
    obstacle_ = std::move(obstacle);
    if (obstacle_.code == before) return;
    if (obstacle_.code.empty()) return step.effects.log(LogLevel::info, "features_available", {});
    step.effects.log(LogLevel::warning, "features_unavailable", {{"why", obstacle_.why}});
  }

  const FeatureWatchConfig config_;
  std::uint64_t job_ = 0;  // running job; 0 = none
  Instant next_;
  bool known_ = false;
  Obstacle obstacle_;
  std::string stale_;
  Instant fresh_;  // last answer that was not stale
  EpisodeLog away_{"features_away", "features_back"};
  StoreEpisode episode_{"reads", false};  // `note` logs
};

}  // namespace troupe::router
