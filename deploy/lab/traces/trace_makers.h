#pragma once
// Makers of request traces: from the histories of a data set, or from stated distributions. Both give one
// request at a time, the same for the same options and seed. TRACES.md has the rules in words.
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

struct TraceMaking {
  double per_second = 100;
  std::string arrivals = "poisson";  // as Arrivals; of data also "own": its timestamps, stretched
  std::uint32_t candidates = 100;
  // Items are asked for instead, so many by a search so wide (0: as is usual); what a user takes is drawn all
  // the same.
  bool generates = false;
  std::uint32_t top_k = 0, width = 0;
  double views = 3;  // requests per event, in the mean: a user looks this often before he takes something
  ReturnRule returns;
  std::string tenant;
  std::uint64_t seed = 1;
};

// Makes of a ranking what the making says.
void ask_as(const TraceMaking& making, TracedRequest& request);

// The events of a data set, each asked for `views` times, the last time with the event as the truth. Users of
// the file (or so many of them, drawn) begin with `start` events of their history.
struct DataTraceOptions {
  TraceMaking making;
  std::filesystem::path data;  // a folder as for import
  std::uint32_t users = 0;     // 0: all
  std::uint32_t start = 1;
  // Where this is more than `start`: histories are lengthened by older events, drawn by popularity, so that a
  // user's first request finds a log-normal number with this median. 0: as they are.
  double history_median = 0, history_sigma = 0.6;
};

class DataTrace {
 public:
  // Throws ImportError.
  explicit DataTrace(const DataTraceOptions& options);

  bool next(TracedRequest& request);  // false: all events were asked for
  std::uint64_t requests() const { return slots_.size(); }

 private:
  struct Event {
    std::uint32_t item = 0;
    double at_s = 0;  // with own times
  };
  struct User {
    std::string id;
    std::vector<Event> history;
    std::uint32_t told = 0;   // events that the trace has named
    std::uint32_t next = 0;   // the event that comes next
    std::uint32_t views = 0;  // of it, still to come
    bool done() const { return next >= history.size(); }
  };
  struct Slot {
    double at_s = 0;
    std::uint32_t user = 0;
  };

  void read_histories(const DataTraceOptions& options);
  void read_ratings(const DataTraceOptions& options);
  void choose_users(std::uint32_t count);
  void lengthen(const DataTraceOptions& options);
  void count_items();
  void make_slots();
  void place_by_time(std::uint32_t user, std::uint32_t event, std::vector<Slot>& slots);
  std::uint32_t views_of(std::uint32_t user, std::uint32_t event) const;
  std::optional<std::uint32_t> next_user(Instant at);
  const std::vector<std::uint32_t>& draw_candidates(const User& user, bool takes);
  void fill(User& user, TracedRequest& request);

  TraceMaking making_;
  std::uint32_t start_;
  bool own_times_;
  SimRandom random_;
  NumberedNames items_;
  std::vector<User> users_;
  std::optional<Weighted> popularity_;
  std::optional<CandidateDraw> candidates_;
  std::optional<Arrivals> arrivals_;
  Returns returns_;
  std::vector<Slot> slots_;  // in order; a slot whose user was served before his turn is left out
  std::size_t slot_ = 0;
  double us_per_own_s_ = 0;
};

// Users and items by Zipf's law; histories are log-normal, drawn like candidates.
struct GeneratedTraceOptions {
  TraceMaking making;
  std::uint32_t users = 100'000, items = 10'000;
  double user_exponent = 0.6, item_exponent = 0.6;
  double history_median = 20, history_sigma = 0.8;  // events at a user's first request
  std::vector<std::string> catalog;  // ids of the items, the most popular first; empty: i0, i1, …
  // Users may differ in how active they are: the share of the draws of one that is kept (above 0), and how
  // many times as long as others he is away. Null: all alike.
  std::function<double(std::uint32_t user)> kept, away;
};

class GeneratedTrace {
 public:
  explicit GeneratedTrace(GeneratedTraceOptions options);

  bool next(TracedRequest& request);  // always true

 private:
  struct User {
    std::uint64_t profile = 0;
    std::optional<std::uint32_t> taken;  // at his last request
  };

  std::uint32_t draw_user();
  void begin_user(std::uint32_t number, TracedRequest& request);
  std::string item_id(std::uint32_t item) const;

  GeneratedTraceOptions options_;
  SimRandom random_;
  sim::Zipf users_, items_;
  Arrivals arrivals_;
  Returns returns_;
  CandidateDraw candidates_;
  std::unordered_map<std::uint32_t, User> met_;  // looked up only
};

}  // namespace troupe::deploy
