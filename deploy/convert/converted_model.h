#pragma once
// A model that was read from another program's checkpoint: its config.json and its tensors in the
// dialect of docs/reference/model-formats.md, and what was done to get them.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::deploy {

struct ConvertedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<float> values;  // row-major
};

// An item of the checkpoint's list: its id in the shop's data, and the row of the embedding.
struct ConvertedItem {
  std::string id, title;
  std::uint64_t row = 0;
};

// Report of a conversion for its user. Each entry is one line's words.
struct ConversionReport {
  std::vector<std::string> read;        // files and their forms
  std::vector<std::string> taken;       // tensors as they were
  std::vector<std::string> transposed;  // tensors with another order of elements
  std::vector<std::string> dropped;     // what serving does not need
  std::vector<std::string> assumed;     // defaults of the code, and decisions
  std::vector<std::string> unknown;     // bindings that the published code does not have
};

struct ConvertedModel {
  nlohmann::ordered_json config;
  std::vector<ConvertedTensor> tensors;
  std::vector<ConvertedItem> items;  // by key, if the checkpoint has keys; empty: an item's id is its row
  ConversionReport report;
  std::uint64_t num_items = 0;  // rows of the item table but row 0
};

// Reads a list of items, one a line: an id, or a key and an id, or a key, an id and a title, separated by
// tabs. A key is the item's number in the checkpoint: a row, or the key of a table that is read by key.
// Without keys the first line is key 1. No key and no id occurs twice. Items that are not in the list get
// no line of the catalog. Throws ImportError.
std::vector<ConvertedItem> read_item_list(const std::filesystem::path& file, const ConvertedModel& model);

// Writes config.json, model.safetensors and, if there are items, items.jsonl, which `troupe import` reads
// as a catalog, into a new or empty folder. If a file cannot be written, those that were are removed.
// Throws std::runtime_error or kernels::LoadError.
void write_model(const ConvertedModel& model, const std::filesystem::path& folder);

}  // namespace troupe::deploy
