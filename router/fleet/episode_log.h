#pragma once
// Logs an episode, such as a store that is away: its begin as a warning, its end as information. An
// episode that begins within ten seconds of the last logged begin is logged only if it lasts until
// then, so that a state that flaps does not flood the log.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "router/fleet/step.h"

namespace troupe::router {

class EpisodeLog {
 public:
  static constexpr Duration every{10'000'000};

  EpisodeLog(const char* begins, const char* ends) : begins_(begins), ends_(ends) {}

  // Called again and again while the episode lasts. `suppressed` of the line counts the episodes that
  // were not logged since the last one.
  void lasts(Step step, std::vector<LogField> fields) {
    const bool begins = !std::exchange(on_, true);
    if (logged_) return;
    if (last_ && step.now < *last_ + every) {
      suppressed_ += begins;
      return;
    }
    if (!begins) --suppressed_;  // it was counted at its begin
    fields.push_back({"suppressed", std::exchange(suppressed_, 0)});
    step.effects.log(LogLevel::warning, begins_, std::move(fields));
    last_ = step.now;
    logged_ = true;
  }
  void ended(Step step, std::vector<LogField> fields = {}) {
    on_ = false;
    if (std::exchange(logged_, false)) step.effects.log(LogLevel::info, ends_, std::move(fields));
  }
  // The episode goes on for another reason, which is logged like another episode.
  void changed() { on_ = logged_ = false; }

 private:
  const char* begins_;
  const char* ends_;
  bool on_ = false, logged_ = false;
  std::optional<Instant> last_;  // logged begin
  std::uint64_t suppressed_ = 0;
};

}  // namespace troupe::router
