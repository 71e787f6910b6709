#pragma once
// The requests on which `troupe verify` compares scores: those of an evaluation file, whose true items
// make them held-out events, or of the data folder's users with candidates of its catalog.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "deploy/data/dataset.h"
#include "deploy/node/served_model.h"
#include "runtime/actor/catalog.h"
#include "runtime/actor/ports.h"

namespace troupe::deploy {

// A ranking request as tokens. A generator's has no candidates.
struct VerifiedRequest {
  std::string name;  // for error texts: "user 25374"
  Profile profile;
  std::vector<Item> items;  // candidates
  std::int64_t now = 0;     // the request's time; 0 = that of its last event
  std::int64_t scenario = 0;
  std::optional<std::size_t> truth;  // index of the item that was taken; absent = not known
};

// Items of a data folder, with the tokens that the model has for them, and the users.
class VerifiedData {
 public:
  // `model` outlives the object. Throws ImportError.
  VerifiedData(const std::filesystem::path& folder, const ServedModel& model);

  const std::filesystem::path& folder() const { return folder_; }
  const std::vector<Item>& items() const { return items_; }
  // Both throw ImportError for an item that the catalog lacks. `who` names the request in its text.
  const Item& item(const std::string& id, const std::string& who) const;
  std::vector<Item> items(const std::vector<std::string>& ids, const std::string& who) const;
  // Throws ImportError for unknown items and for features that the model does not accept.
  Profile profile(const std::vector<std::string>& history, const std::vector<Feature>& features,
                  const std::string& who) const;
  Profile profile(const PutUser& user) const;
  // Returns the users with that part of their histories.
  std::vector<PutUser> users(HistoryPart part) const;
  // Returns the names of the features that the model reads of each event.
  std::vector<std::string> event_features() const;

 private:
  const ServedModel& model_;
  std::filesystem::path folder_;
  std::vector<Item> items_;
  std::map<std::string, std::size_t, std::less<>> by_id_;
};

struct VerifiedRequests {
  std::filesystem::path file;  // evaluation file; empty = made of users and items
  std::vector<VerifiedRequest> list;
};
// Reads at most `count` requests (0: all) of `evaluation`; if it is empty, of the model directory's
// eval.tsv.gz or the data folder's requests.jsonl or eval.tsv, plain or .gz; if there are none, makes
// requests of the folder's users. Throws ImportError.
VerifiedRequests read_verified_requests(const VerifiedData& data, const std::filesystem::path& model,
                                        const std::filesystem::path& evaluation, std::size_t count);

}  // namespace troupe::deploy
