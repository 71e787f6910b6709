#pragma once
// Computes the item-prefix blocks of the whole catalog ahead of time (BAT §5.2, step 3): waits until the
// KV-cache worker has loaded what it had on disk, walks the catalog in order, asks the index what is missing,
// and has that computed as background work, a few chunks at a time. Stops walking when the item area is full,
// which shows in two chunks in a row of which nothing was kept, with a sign of life of the worker between
// them. Items that are put later are computed the same way. Nothing waits for it and nothing is wrong without
// it.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router/plan.h"
#include "runtime/core.h"

namespace troupe::router {

struct PrecomputeConfig {
  bool on = false;
  std::uint32_t page_items = 256;      // of the catalog, per look
  std::uint32_t chunk_tokens = 2'000;  // per background plan; at least one item
  std::uint32_t running_max = 2;       // background plans at a time
  std::uint32_t changed_max = 4'096;   // put items that wait; more are left to be computed when asked for
  Duration poll{200'000};              // between two looks at the KV-cache worker, and at what is overdue
  Duration pause{200'000};             // after a refusal
  Duration lookup_wait{1'000'000};
  Duration budget{30'000'000};  // of a background plan
};

// What one step of the router gives its parts.
struct Turn {
  Instant now;
  std::uint64_t& next_id;  // of requests and jobs of this router
  Effects& effects;
};

class Precompute {
 public:
  struct Peers {
    Address kv_worker, cache_meta, inference_worker;
  };
  Precompute(PrecomputeConfig config, Peers peers, PromptForm form, NameContext names);

  void start(Turn turn);
  void on_timer(Turn turn);  // precompute_timer
  void add(Turn turn, Item item);
  void drop(const std::string& item);  // it was deleted

  // False if the answer is to somebody else's question.
  bool on_status(Turn turn, const StatusReply& reply);
  bool on_listed(Turn turn, std::uint64_t job, const JobResult& result);
  bool on_found(Turn turn, const BlocksFound& found);
  bool on_executed(Turn turn, const Executed& executed);
  bool on_refused(Turn turn, const Refused& refused);

  std::string_view state() const;  // off | waiting | running | done | full
  std::uint64_t items_precomputed() const { return items_precomputed_; }

 private:
  enum class Stage : std::uint8_t { off, waiting, walking, done, full };
  struct Asked {
    std::uint64_t id = 0;
    std::vector<Item> items;
    Instant deadline;
  };

  void work(Turn turn);
  void look_up(Turn turn, std::vector<Item> items);
  void compute_chunk(Turn turn);
  void on_fruitless(Turn turn, const std::vector<Item>& items);
  void give_back(const std::vector<Item>& items);  // they are missing still
  bool fits(const Item& item) const;

  PrecomputeConfig config_;
  Peers peers_;
  PromptForm form_;
  NameContext names_;
  Stage stage_ = Stage::off;
  std::string after_;  // the walk's place in the catalog
  bool last_listed_ = false;
  std::uint64_t list_job_ = 0;
  std::optional<Asked> lookup_;
  std::deque<Item> changed_;  // put; not looked up yet
  std::deque<Item> missing_;  // looked up; not computed yet
  std::map<std::uint64_t, Asked> running_;
  bool fruitless_ = false;  // nothing of the last chunk was kept
  Instant paused_until_;
  std::uint64_t items_precomputed_ = 0;
};

inline constexpr std::uint64_t precompute_timer = 1;

}  // namespace troupe::router
