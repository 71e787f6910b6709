#pragma once
// The requests on which `troupe verify` compares scores: those of an evaluation file, whose true items
// make them held-out events, or of the data folder's users with candidates of its catalog. The history of
// an event ends before its true item: a history that holds the answer shows nothing.
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
  std::string name;  // for error texts: "requests.jsonl:7: user 25374"
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
  bool has(const std::string& id) const { return by_id_.contains(id); }
  // Both throw ImportError for an item that the catalog lacks. `who` names the request in its text.
  const Item& item(const std::string& id, const std::string& who) const;
  std::vector<Item> items(const std::vector<std::string>& ids, const std::string& who) const;
  // Throws ImportError for unknown items and for features that the model does not accept. A history without
  // events needs no features.
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

struct RequestChoice {
  std::filesystem::path model;       // directory
  std::filesystem::path evaluation;  // file; empty = looked for in the model directory and the data folder
  std::size_t count = 0;             // maximum number of requests; 0 = all
  bool skip_unknown = false;         // leaves out items that the catalog lacks; else they are an error
};

// Counts what was left out of the requests that were read.
struct LeftOut {
  std::size_t unknown_items = 0;     // of histories and candidates
  std::size_t unknown_requests = 0;  // requests whose true item is unknown
  std::size_t no_profile = 0;        // requests without a history, of users that the data folder lacks
  // Histories of the data folder that were cut before the true item, or at the request's time.
  std::size_t cut_histories = 0;
  // Requests whose own history, which is used as it is, has the true item.
  std::size_t repeated_items = 0;
};

struct VerifiedRequests {
  std::filesystem::path file;  // evaluation file; empty = made of users and items
  std::vector<VerifiedRequest> list;
  LeftOut left_out;
};

// Reads the requests of the evaluation file; if none is named, of the model directory's eval.tsv.gz or the
// data folder's requests.jsonl or eval.tsv, plain or .gz; if there are none, makes requests of the folder's
// users. A line of requests.jsonl without a history has that of the data folder. Throws ImportError.
VerifiedRequests read_verified_requests(const VerifiedData& data, const RequestChoice& choice);

}  // namespace troupe::deploy
