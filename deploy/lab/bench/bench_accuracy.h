#pragma once
// `troupe bench accuracy`: what number formats cost a generator of semantic IDs in quality. Every test event
// of a data set is asked of the same model in each format: how probable the true item is (teacher-forced),
// and where a constrained beam search puts it. Formats are compared event by event, since their differences
// are far smaller than the spread between events.
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/number_formats.h"
#include "kernels/base/path_index.h"
#include "kernels/checkpoint/model.h"

namespace troupe::deploy {

using Path = std::vector<kernels::Token>;

struct AccuracyEvent {
  Path prompt;  // <bos>, then the semantic IDs of the newest items before the event, oldest first
  Path truth;   // the semantic ID of the item that came
};

struct AccuracyData {
  std::shared_ptr<const kernels::PathIndex> index;  // of the catalog's semantic IDs
  std::vector<AccuracyEvent> events;
};

// All events of the test parts, user after user as in the file, each with the whole history before it, of
// which the prompt has the newest `history_items`. Throws ImportError, also if an event does not fit the
// model.
AccuracyData read_accuracy_data(const std::filesystem::path& model, const std::filesystem::path& data,
                                std::size_t history_items);

struct NumberFormats {
  kernels::WeightFormat weights = kernels::WeightFormat::f32;
  kernels::KvFormat kv = kernels::KvFormat::f32;

  std::string name() const;  // "int8/bf16": weights, then keys and values
};
NumberFormats parse_formats(const std::string& name);  // throws std::invalid_argument

struct EventScore {
  double surprise = 0;    // negative log-likelihood of the true item's tokens, nats, mean over them
  std::size_t place = 0;  // of the true item among the beams, from 1; 0: not there
};
inline double recall(const EventScore& score, std::size_t k) { return score.place > 0 && score.place <= k; }
double ndcg(const EventScore& score, std::size_t k);

// The model is packed anew in these formats.
std::vector<EventScore> score_events(const kernels::DecoderModel& model, const NumberFormats& formats,
                                     const AccuracyData& data, std::size_t width);

struct Mean {
  double value = 0, standard_error = 0;  // of independent samples
};
nlohmann::json to_json(const Mean& mean);  // {"mean": 0.5, "standard_error": 0.01}
Mean mean_of(const std::vector<double>& samples);

struct Accuracy {
  Mean surprise, recall_at_5, recall_at_10, ndcg_at_10;
};
Accuracy summarize(const std::vector<EventScore>& scores);

// Differences from a base, paired by event.
struct AccuracyChange {
  Mean surprise, recall_at_5, recall_at_10, ndcg_at_10;
  Mean moved;                        // absolute differences of surprise
  std::size_t gained = 0, lost = 0;  // events that became hits at 10, or no longer are
};
AccuracyChange compare(const std::vector<EventScore>& base, const std::vector<EventScore>& other);

}  // namespace troupe::deploy
