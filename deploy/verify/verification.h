#pragma once
// Computes requests under each arrangement that the model's prompts can have, with and without cached
// blocks, compares the scores with each other and with golden ones, and says which arrangements are
// interchangeable. This is `troupe verify`.
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "deploy/models/rounding.h"
#include "deploy/verify/interchange.h"
#include "deploy/verify/verify_requests.h"
#include "kernels/executor/executor.h"
#include "runtime/actor/arrangement.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

struct VerifyOptions {
  Config config;                                           // model directory, number formats
  std::filesystem::path data, prompt, evaluation, golden;  // the last three may be empty
  std::vector<Arrangement> arrangements;  // declared instead of the form's; empty = the form's
  std::size_t requests = 500;             // 0 = all
  double tolerance = 0.02;                // of NDCG@10, relative
  bool write = false;
  bool skip_unknown = false;  // leaves out items that the catalog lacks
};

// Largest difference of scores with reused blocks from the plain computation.
struct ReuseCheck {
  std::string reused;  // "user", "all blocks"
  std::size_t requests = 0;
  double largest = 0;  // difference closest to its bound, or farthest beyond it
  double bound = 0;    // rounding of that request's scores
  std::string score;   // the score that differs so: "requests.jsonl:3: user ann: candidate i4"
  float computed = 0;  // with reused blocks
  float expected = 0;  // by the plain computation
  bool is_rounding() const { return largest <= bound; }
};

struct ArrangementCheck {
  Arrangement arrangement = Arrangement::unnamed;
  bool declared = false;
  std::vector<ReuseCheck> reuse;
  // Compared requests, and those of them that are events. All requests fit under the declared arrangements;
  // another one is compared on those that fit under it.
  std::size_t requests = 0, events = 0;
  // Agreement with the first arrangement, over the compared requests.
  Mean overlap_at_10, rank_correlation;
  double largest_difference = 0;
  ArrangementQuality quality;  // of the events
};

struct GoldenArrangement {
  Arrangement arrangement = Arrangement::unnamed;
  std::size_t equal = 0;  // lines whose scores equal this arrangement's
  double largest = 0;     // largest difference over all lines
  double share = 0;       // the same as a share of its line's bound
};
struct GoldenCheck {
  std::size_t lines = 0;  // 0 = no golden file
  std::size_t named = 0;  // lines that name their arrangement, or are prompts of their own
  std::size_t named_equal = 0;
  double relative = 0;  // bound of a difference, relative to the largest score of the line or to 1
  // Lines that name no arrangement, against each one.
  std::vector<GoldenArrangement> arrangements;
  // All lines without a name equal it; unnamed = none. If they do not tell several apart, the first of them.
  Arrangement equals = Arrangement::unnamed;
  std::vector<std::string> faults;  // lines that differ: "golden.jsonl:3: candidate 7: …"
};

struct VerifyReport {
  std::string model, version, requests_file, form_file;  // empty files: made of users; the default form
  std::size_t requests = 0, events = 0;
  std::size_t skipped = 0;  // requests that do not fit under a declared arrangement
  LeftOut left_out;
  std::size_t reuse_requests = 0;
  std::string weights, pages;  // number formats
  double relative = 0;         // bound of rounding, relative to the largest score of the request or to 1
  double tolerance = 0;
  std::vector<Arrangement> declared, listed;   // `listed`: as interchangeable by the form
  std::vector<ArrangementCheck> arrangements;  // the first one is that of requests that name none
  GoldenCheck golden;
  bool shown = false;                        // there were enough events for a verdict
  std::vector<Arrangement> interchangeable;  // declared ones that are as good; the first alone if none is
  std::string written;                       // form file that was written; empty = none
  std::string write_fault;  // why the form file could not be written; empty = it was, or was not tried
  std::vector<std::string> faults;  // what differs and must not
  std::vector<std::string> notes;
  bool is_well() const { return faults.empty() && write_fault.empty(); }
};

using WrapExecutor = std::function<std::unique_ptr<kernels::Executor>(std::unique_ptr<kernels::Executor>)>;

// Throws ImportError, LoadError and ConfigError for input that cannot be read. `wrap` replaces the model's
// executor; tests damage blocks and scores by it.
VerifyReport verify(const VerifyOptions& options, const WrapExecutor& wrap = nullptr);

void print(std::ostream& out, const VerifyReport& report);
nlohmann::json to_json(const VerifyReport& report);

}  // namespace troupe::deploy
