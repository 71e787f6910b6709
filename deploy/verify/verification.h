#pragma once
// Computes requests under each arrangement that the model's prompts can have, with and without cached
// blocks, compares the scores with each other and with golden ones, and says which arrangements are
// interchangeable. This is `troupe verify`.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "deploy/verify/interchange.h"
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
};

// Largest difference of scores with reused blocks from the plain computation.
struct ReuseCheck {
  std::string reused;  // "user", "all blocks"
  std::size_t requests = 0;
  double largest = 0;  // difference closest to its bound, or farthest beyond it
  double bound = 0;    // rounding of that request's scores
  bool is_rounding() const { return largest <= bound; }
};

struct ArrangementCheck {
  Arrangement arrangement = Arrangement::unnamed;
  bool declared = false;
  std::vector<ReuseCheck> reuse;
  // Agreement with the first arrangement, over all requests.
  Mean overlap_at_10, rank_correlation;
  double largest_difference = 0;
  ArrangementQuality quality;  // of the events
};

struct GoldenArrangement {
  Arrangement arrangement = Arrangement::unnamed;
  std::size_t equal = 0;  // lines whose scores equal this arrangement's
  double largest = 0;     // largest difference over all lines
};
struct GoldenCheck {
  std::size_t lines = 0;  // 0 = no golden file
  std::size_t named = 0;  // lines that name their arrangement, or are prompts of their own
  std::size_t named_equal = 0;
  double relative = 0;  // bound of a difference, relative to the largest score of the line or to 1
  // Lines that name no arrangement, against each one.
  std::vector<GoldenArrangement> arrangements;
  Arrangement equals = Arrangement::unnamed;  // all lines without a name equal it; unnamed = none
  std::vector<std::string> faults;            // lines that differ: "golden.jsonl:3: candidate 7: …"
};

struct VerifyReport {
  std::string model, version, requests_file, form_file;  // empty files: made of users; the default form
  std::size_t requests = 0, events = 0;
  std::size_t skipped = 0;  // requests that do not fit under some arrangement
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
  std::vector<std::string> faults;           // what differs and must not; empty = all is well
  std::vector<std::string> notes;
};

// Throws ImportError, LoadError and ConfigError for input that cannot be read.
VerifyReport verify(const VerifyOptions& options);

// Returns the bounds of differences for number formats: of two computations by Troupe, and of golden scores
// that another program computed. Both are relative to the largest score of a request, or to 1.
struct RoundingBounds {
  double reuse = 0, golden = 0;
};
RoundingBounds rounding_bounds(const Config& config);

void print(std::ostream& out, const VerifyReport& report);
nlohmann::json to_json(const VerifyReport& report);

}  // namespace troupe::deploy
