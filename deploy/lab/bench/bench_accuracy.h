#pragma once
// `troupe-lab bench accuracy`: measures what number formats cost a generator of semantic IDs in quality.
// Every test event of a data set is put to the same model in each format. Two things are measured:
// how probable the true item is (teacher-forced), and at which rank a constrained beam search puts it.
// Formats are compared event by event, because their differences are far smaller than the spread
// between events.
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/reports/ranking_quality.h"
#include "kernels/base/number_formats.h"
#include "kernels/base/path_index.h"
#include "kernels/checkpoint/model.h"

namespace troupe::deploy {

using Path = std::vector<kernels::Token>;

struct AccuracyEvent {
  Path prompt;  // <bos>, then the semantic IDs of the newest items before the event, oldest first
  Path truth;   // the semantic ID of the event's item
};

struct AccuracyData {
  std::shared_ptr<const kernels::PathIndex> index;  // of the catalog's semantic IDs
  std::vector<AccuracyEvent> events;
};

// Returns all events of the test parts, user by user in file order. A prompt holds the newest
// `history_items` of the items before its event. Throws ImportError, also if an event does not fit the
// model.
AccuracyData read_accuracy_data(const std::filesystem::path& model, const std::filesystem::path& data,
                                std::size_t history_items);

struct NumberFormats {
  kernels::WeightFormat weights = kernels::WeightFormat::f32;
  kernels::KvFormat kv = kernels::KvFormat::f32;

  std::string name() const;  // "int8/bf16": weights, then keys and values
};
NumberFormats parse_formats(const std::string& name);  // throws std::invalid_argument

// Scores every event with beams of `width`. The model is packed anew in `formats`.
std::vector<EventScore> score_events(const kernels::DecoderModel& model, const NumberFormats& formats,
                                     const AccuracyData& data, std::size_t width);

struct Accuracy {
  Mean surprise, recall_at_5, recall_at_10, ndcg_at_10;
};
Accuracy summarize(const std::vector<EventScore>& scores);

// Differences from a base, paired by event.
struct AccuracyChange {
  Mean surprise, recall_at_5, recall_at_10, ndcg_at_10;
  Mean moved;                        // absolute difference of surprise
  std::size_t gained = 0, lost = 0;  // events that became hits at 10, and events that no longer are
};
AccuracyChange compare(const std::vector<EventScore>& base, const std::vector<EventScore>& other);

}  // namespace troupe::deploy
