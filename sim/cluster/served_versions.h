#pragma once
// The versions that each model of the simulated cluster was served with, over time, and which of them may
// answer a request (promise 4).
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/sent_request.h"

namespace troupe::sim {

class ServedVersions {
 public:
  struct Since {
    Versions versions;
    Instant from;
    bool is_loss = false;  // the coordination store went back to them
  };

  // Notes each change of the coordination store.
  explicit ServedVersions(Cluster& cluster);
  ServedVersions(const ServedVersions&) = delete;  // the coordination store has a callback to it
  ServedVersions& operator=(const ServedVersions&) = delete;

  void note();  // also called before requests and judgements
  const std::vector<Since>& of(std::uint32_t model) const { return served_[model]; }
  // True if the versions at this index of the request's model may still have been served for it.
  bool served_for(const SentRequest& asked, std::size_t index) const;
  // True if the request may be answered by this model version from this catalog; "" = any catalog.
  bool may_answer(const SentRequest& asked, const std::string& model, const std::string& catalog) const;

 private:
  static bool may_have(const SentRequest& asked, const Versions& versions, const std::string& model);

  Cluster& cluster_;
  std::vector<std::vector<Since>> served_;  // per model, with the time of each change
};

}  // namespace troupe::sim
