#pragma once
// Draws the random requests of the simulated clients: rankings, scores, writes and malformed requests, in
// the shares of the scenario or of the faults.
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"

namespace troupe::sim {

class RequestDraw {
 public:
  explicit RequestDraw(Cluster& cluster);

  void set_writes(double share) { writes_share_ = share; }
  void set_malformed(double share) { malformed_share_ = share; }
  // Lets one tenant send this share of the requests; the rest is drawn from all tenants.
  void set_greedy(std::uint32_t tenant, double share) { greedy_ = tenant, greedy_share_ = share; }

  // Returns the code with which the request must be refused because of its arrangement or policy; "" = none.
  std::string refusal_of(const Message& request) const;

  // The stream of all draws of the clients.
  RandomStream& random() { return random_; }
  bool is_malformed() { return chance(random_, malformed_share_); }  // of the next request
  Message request();
  Message malformed();
  // Draws a ranking. Without a malformed share it is one that the form allows.
  RankRequest rank();
  // Takes policy, approximation and arrangement out of a request, so that the form allows it.
  static void name_nothing(RankRequest& request);

 private:
  void name_policy(RankRequest& request);
  void name_arrangement(RankRequest& request);
  void make_lenient(RankRequest& request);
  Message write();
  Message grow_or_put(const std::string& user, std::vector<Token> tokens);
  AppendEvents append(const std::string& tenant, const std::string& user, std::vector<Token> tokens);
  std::string tenant();

  Cluster& cluster_;
  RandomStream random_;
  double writes_share_, malformed_share_ = 0, greedy_share_ = 0;
  std::uint32_t greedy_ = 0;
  std::optional<AppendEvents> last_append_;
  std::uint64_t events_drawn_ = 0;
};

// Returns the generate request that replaces this ranking for generators; the same ranking gives the same
// request.
GenerateRequest generate_of(const RankRequest& rank);

}  // namespace troupe::sim
