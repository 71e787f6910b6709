#pragma once
// Judges whether a Redis may drop acknowledged rows to free memory, and notices when it does. An
// evicted user is an unknown user, and nothing else tells of it.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>

namespace troupe {

// Figures of a server's memory, as INFO gives them.
struct RedisStanding {
  std::string run;              // run_id
  std::string policy;           // maxmemory_policy; "" = the server does not tell
  std::uint64_t maxmemory = 0;  // bytes; 0 = no limit yet
  std::uint64_t evicted = 0;    // keys since the start of the run
};

// Troupe's keys have no time to live, so volatile-* policies evict none of them.
inline bool may_evict(const std::string& policy) { return policy.starts_with("allkeys-"); }

// Thread-safe.
class RedisEvictions {
 public:
  struct Notes {
    std::string risk;  // "" unless the server may evict and this was not said of its run and policy yet
    std::string loss;  // "" unless keys were evicted since the last standing of this run
  };
  Notes note(const RedisStanding& now) {
    const std::lock_guard lock(mutex_);
    const bool same_run = now.run == run_;
    Notes notes;
    if (may_evict(now.policy)) {
      if (!same_run || now.policy != policy_)
        notes.risk = "maxmemory-policy " + now.policy + (now.maxmemory == 0 ? ", though maxmemory is 0" : "");
      // The first standing of a run cannot tell whose keys were evicted before.
      if (same_run && now.evicted > evicted_)
        notes.loss = std::to_string(now.evicted - evicted_) + " keys evicted, maxmemory-policy " + now.policy;
    }
    // Standings of two slots may arrive swapped.
    evicted_ = same_run ? std::max(evicted_, now.evicted) : now.evicted;
    run_ = now.run, policy_ = now.policy;
    return notes;
  }

 private:
  std::mutex mutex_;
  std::string run_, policy_;
  std::uint64_t evicted_ = 0;
};

}  // namespace troupe
