#pragma once
// Checks a reply exactly: recomputes it from the profile, catalog and model versions that it names, on the
// toy model with nothing cached. The oracle does not read cluster state; other judges decide whether these
// versions were the right ones.
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
  // `form` is the prompt form of all models. `approximate` is the largest share of a prompt that planners
  // may leave approximate if a request does not say. `width_max` is the routers' limit of a search's width; 0
  // = none that matters. `world` must outlive the oracle.
  Oracle(const WorldData& world, PromptForm form, const ToyFamily& family = toy_decoder(),
         double approximate = 0, std::uint32_t width_max = 0)
      : world_(world),
        form_(std::move(form)),
        family_(family),
        approximate_(approximate),
        width_max_(width_max) {}

  // Returns "" or the first difference. Items may be put and deleted while a request is in flight: the
  // reply is correct if it matches one catalog state between `since` (when the request was sent) and
  // `until`.
  std::string validate(const RankRequest& request, const RankReply& reply, WorldData::Edition since,
                       WorldData::Edition until) const;
  std::string validate(const RankRequest& request, const RankReply& reply) const {
    return validate(request, reply, world_.edition(), world_.edition());
  }
  // For catalogs whose items are not written.
  std::string validate(const GenerateRequest& request, const GenerateReply& reply);
  std::string validate(const ScoreRequest& request, const ScoreReply& reply) const;

 private:
  std::string find_fault_at(const RankRequest& request, const RankReply& reply, const Profile& profile,
                            WorldData::Edition edition) const;

  const std::vector<Item>& items_of(const std::string& catalog);

  std::map<std::string, std::vector<Item>> items_;  // of catalogs named by replies
  const WorldData& world_;
  PromptForm form_;
  const ToyFamily& family_;
  const double approximate_;
  const std::uint32_t width_max_;
};

}  // namespace troupe::sim
