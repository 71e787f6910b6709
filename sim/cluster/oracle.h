#pragma once
// The truth about a reply: the profile, catalog and model versions that it names, computed by hand on the toy
// model with nothing cached, and compared with what it says, exactly. It knows nothing of the cluster;
// whether the versions were the right ones to use is for others to judge.
#include <map>
#include <string>
#include <vector>

#include "router/request/plans.h"
#include "runtime/actor/messages.h"
#include "sim/world/toy_model.h"
#include "sim/world/world_data.h"

namespace troupe::sim {

class Oracle {
 public:
  // The prompt form of all models; `approximate`: the share of a prompt that planners may leave so where a
  // request does not say. `world` outlives the oracle.
  Oracle(const WorldData& world, PromptForm form, const ToyFamily& family = toy_decoder(),
         double approximate = 0)
      : world_(world), form_(std::move(form)), family_(family), approximate_(approximate) {}

  // Empty, or what is not as it has to be. A catalog version's items may be put and deleted while a request
  // is under way: it is right if it is for one state of the catalog between those of `since` (when it was
  // sent) and `until`.
  std::string find_fault(const RankRequest& request, const RankReply& reply, WorldData::Edition since,
                         WorldData::Edition until) const;
  std::string find_fault(const RankRequest& request, const RankReply& reply) const {
    return find_fault(request, reply, world_.edition(), world_.edition());
  }
  // For catalogs whose items are not written.
  std::string find_fault(const GenerateRequest& request, const GenerateReply& reply);
  std::string find_fault(const ScoreRequest& request, const ScoreReply& reply) const;

 private:
  std::string find_fault_at(const RankRequest& request, const RankReply& reply, const Profile& profile,
                            WorldData::Edition edition) const;

  const std::vector<Item>& items_of(const std::string& catalog);

  std::map<std::string, std::vector<Item>> items_;  // of catalogs that replies named
  const WorldData& world_;
  PromptForm form_;
  const ToyFamily& family_;
  const double approximate_;
};

}  // namespace troupe::sim
