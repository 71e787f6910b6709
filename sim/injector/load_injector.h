#pragma once
// Injects faults of clients and of the feature store: overload, malformed requests, flash crowds, poison,
// writes and deletions, a slow or failing store.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/injector/process_injector.h"

namespace troupe::sim {

class LoadInjector {
 public:
  LoadInjector(Cluster& cluster, Clients& clients, Violations& violations, const ActiveFaults& faults,
               ProcessInjector& processes)
      : cluster_(cluster),
        clients_(clients),
        violations_(violations),
        faults_(faults),
        processes_(processes) {}

  // Effects; each returns true if the fault found something to act on.
  bool degrade_features(const FaultChange& change);
  bool flood(const FaultChange& change);
  bool crowd(const FaultChange& change);
  bool send_malformed(const FaultChange& change);
  bool send_poison(const FaultChange& change);
  bool storm_profiles(const FaultChange& change);
  bool delete_owners(const FaultChange& change);

  // While there are deposed leaders, clients write more: leaders send commands only after writes.
  void set_deposed_leaders(bool any);
  void on_poison(NodeId node, std::uint64_t content);

 private:
  using UserKey = std::pair<std::string, std::string>;  // tenant, user

  void refresh_writes();
  bool start_poison(const FaultChange& change);
  void start_deletes(const Fault& fault);
  void delete_one(RandomStream& random);
  void put_user(const UserKey& user, RandomStream& random);
  void put_item(const std::string& item, RandomStream& random);
  void put_all_back(RandomStream& random);
  std::vector<Token> draw_tokens(RandomStream& random) const;

  Cluster& cluster_;
  Clients& clients_;
  Violations& violations_;
  const ActiveFaults& faults_;
  ProcessInjector& processes_;
  bool deposed_leaders_ = false;
  std::map<std::size_t, std::uint64_t> poisons_;            // contents, by fault
  std::map<std::uint64_t, std::uint32_t> kills_by_poison_;  // by content
  std::set<UserKey> gone_users_;
  std::set<std::string> gone_items_;
};

}  // namespace troupe::sim
