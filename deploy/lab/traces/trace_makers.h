#pragma once
// Makers of request traces: from the histories of a data set, or from given distributions. Both return one
// request at a time, and the same requests for the same options and seed. docs/guides/traces.md explains the
// rules.
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "deploy/lab/traces/arrivals.h"
#include "deploy/lab/traces/numbered_names.h"
#include "deploy/lab/traces/trace_draw.h"
#include "runtime/actor/traced_request.h"
#include "sim/world/world_data.h"

namespace troupe::deploy {

struct TraceMakerOptions {
  double per_second = 100;
  std::string arrivals = "poisson";  // see Arrivals; for data also "own": its timestamps, stretched
  std::uint32_t candidates = 100;
  // Requests generate items instead of ranking candidates: `top_k` items by a search of `width` (0 = the
  // server's default). The item that a user takes is still drawn.
  bool generates = false;
  std::uint32_t top_k = 0, width = 0;
  double views = 3;  // mean requests per event: a user looks this often before they take an item
  ReturnRule returns;
  std::string tenant;
  std::uint64_t seed = 1;
};

// Turns a ranking into a generation if the options say so.
void apply_request_kind(const TraceMakerOptions& common, TracedRequest& request);

// Options of a trace from a data set. Each event is requested `views` times in the mean, the last time with
// the event's item as the truth. Users begin with the first `start` events of their history.
struct DataTraceOptions {
  TraceMakerOptions common;
  std::filesystem::path data;  // a folder as for `troupe import`
  std::uint32_t users = 0;     // users to draw; 0 = all
  std::uint32_t start = 1;
  // Lengthens histories by older events, drawn by popularity. A user's first request then finds a log-normal
  // number of events with this median, if that is above `start`. 0 = histories as they are.
  double history_median = 0, history_sigma = 0.6;
};

class DataTrace {
 public:
  // Throws ImportError.
  explicit DataTrace(const DataTraceOptions& options);

  bool next(TracedRequest& request);  // returns false after all events
  std::uint64_t requests() const { return slots_.size(); }

 private:
  struct Event {
    std::uint32_t item = 0;
    double at_s = 0;  // with own times
  };
  struct User {
    std::string id;
    std::vector<Event> history;
    std::uint32_t reported = 0;  // events that the trace has already contained
    std::uint32_t next = 0;      // index of the next event
    std::uint32_t views = 0;     // remaining views of that event
    bool done() const { return next >= history.size(); }
  };
  struct Slot {
    double at_s = 0;
    std::uint32_t user = 0;
  };

  void read_histories(const DataTraceOptions& options);
  void read_ratings(const DataTraceOptions& options);
  void choose_users(std::uint32_t count);
  void lengthen_histories(const DataTraceOptions& options);
  void count_items();
  void make_slots();
  void add_slots_by_time(std::uint32_t user, std::uint32_t event, std::vector<Slot>& slots);
  std::uint32_t views_of(std::uint32_t user, std::uint32_t event) const;
  std::optional<std::uint32_t> next_user(Instant at);
  const std::vector<std::uint32_t>& draw_candidates(const User& user, bool takes);
  void fill(User& user, TracedRequest& request);

  TraceMakerOptions maker_options_;
  std::uint32_t start_;
  bool own_times_;
  RandomStream random_;
  NumberedNames items_;
  std::vector<User> users_;
  std::optional<WeightedDraw> popularity_;
  std::optional<CandidateDraw> candidates_;
  std::optional<Arrivals> arrivals_;
  ReturnQueue returns_;
  std::vector<Slot> slots_;  // in order; a slot is skipped if its user has no events left
  std::size_t slot_ = 0;
  double us_per_own_s_ = 0;
};

// Options of a generated trace. Users and items follow Zipf's law. History lengths are log-normal, and their
// items are drawn like candidates.
struct GeneratedTraceOptions {
  TraceMakerOptions common;
  std::uint32_t users = 100'000, items = 10'000;
  double user_exponent = 0.6, item_exponent = 0.6;
  double history_median = 20, history_sigma = 0.8;  // events at a user's first request
  std::vector<std::string> catalog;  // ids of the items, the most popular first; empty: i0, i1, …
  // Activity of a user: `kept` is the share of their draws that is kept (above 0), and `away` multiplies the
  // time until they return. Null = all users alike.
  std::function<double(std::uint32_t user)> kept, away;
};

class GeneratedTrace {
 public:
  explicit GeneratedTrace(GeneratedTraceOptions options);

  bool next(TracedRequest& request);  // always returns true

 private:
  struct User {
    std::uint64_t profile = 0;
    std::optional<std::uint32_t> taken;  // item taken at the user's last request
  };

  std::uint32_t draw_user();
  void begin_user(std::uint32_t number, TracedRequest& request);
  std::string item_id(std::uint32_t item) const;

  GeneratedTraceOptions options_;
  RandomStream random_;
  sim::Zipf users_, items_;
  Arrivals arrivals_;
  ReturnQueue returns_;
  CandidateDraw candidates_;
  std::unordered_map<std::uint32_t, User> users_seen_;  // never iterated
};

}  // namespace troupe::deploy
