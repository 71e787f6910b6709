#pragma once
// Whether the router's features could answer anybody: the port is asked now and then for the catalog's first
// item. A store that is away, or a catalog without items, makes every ranking a refusal, and load balancers
// should hear of it before clients do.
#include <string>

#include "router/fleet/turn.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

struct FeatureWatchConfig {
  Duration every{0};        // 0: nobody asks, and nothing stands in the way
  bool needs_items = true;  // a catalog without items is an obstacle
};

class FeatureWatch {
 public:
  explicit FeatureWatch(FeatureWatchConfig config) : config_(config) {}

  void tick(Turn turn) {
    if (config_.every.us <= 0 || job_ != 0 || turn.now < next_) return;
    turn.effects.start(job_ = turn.next_id++, ListItems{0, 1});
  }
  // Whether the job was its own.
  bool on_done(Turn turn, std::uint64_t job, const JobResult& result) {
    if (job_ == 0 || job != job_) return false;
    job_ = 0;
    next_ = turn.now + config_.every;
    note(turn, obstacle_in(result));
    return true;
  }
  // Why no ranking can be answered; "": nothing is known against it.
  std::string obstacle() const {
    if (config_.every.us <= 0) return "";
    return known_ ? obstacle_ : "the catalog was not read yet";
  }

 private:
  std::string obstacle_in(const JobResult& result) const {
    if (const auto* refusal = std::get_if<Refusal>(&result)) return refusal->what;
    const auto* list = std::get_if<ItemList>(&result);
    const bool empty = list && list->items.empty() && list->last;
    return empty && config_.needs_items ? "the catalog has no items" : "";
  }
  // Each change is told once.
  void note(Turn turn, std::string obstacle) {
    const bool is_news = known_ ? obstacle != obstacle_ : !obstacle.empty();
    known_ = true;
    obstacle_ = std::move(obstacle);
    if (!is_news) return;
    if (obstacle_.empty()) return turn.effects.log(LogLevel::info, "features_are_back", {});
    turn.effects.log(LogLevel::warning, "nothing_to_serve", {{"why", obstacle_}});
  }

  const FeatureWatchConfig config_;
  std::uint64_t job_ = 0;  // that runs; 0: none
  Instant next_;
  bool known_ = false;
  std::string obstacle_;
};

}  // namespace troupe::router
