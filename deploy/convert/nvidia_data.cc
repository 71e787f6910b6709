// Finds the tables of a checkpoint of NVIDIA's recsys-examples and reads the dynamic ones.
#include "deploy/convert/nvidia_data.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <span>

#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/mapped_file.h"

namespace troupe::deploy {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t vocabulary_most = std::uint64_t{1} << 40, sequence_most = 1 << 20;
constexpr std::uint64_t table_rows_most = std::uint64_t{1} << 26, ranks_most = 1 << 16;

// Tables of one of NVIDIA's data sets: sizes of the tables that are not dynamic, by feature.
struct KnownData {
  std::string_view name, item, action;
  std::vector<std::string> contexts;
  std::vector<std::pair<std::string, std::uint64_t>> sizes;  // feature, rows
};

std::vector<KnownData> known_data() {
  const std::vector<std::string> kuairand{"user_id",
                                          "user_active_degree",
                                          "follow_user_num_range",
                                          "fans_user_num_range",
                                          "friend_user_num_range",
                                          "register_days_range"};
  const auto sizes = [](std::array<std::uint64_t, 6> rows) {
    return std::vector<std::pair<std::string, std::uint64_t>>{
        {"user_active_degree", rows[0]},  {"follow_user_num_range", rows[1]},
        {"fans_user_num_range", rows[2]}, {"friend_user_num_range", rows[3]},
        {"register_days_range", rows[4]}, {"action_weights", rows[5]}};
  };
  return {{"kuairand-pure", "video_id", "action_weights", kuairand, sizes({10, 9, 10, 8, 8, 226})},
          {"kuairand-1k", "video_id", "action_weights", kuairand, sizes({8, 9, 9, 8, 8, 233})},
          {"kuairand-27k", "video_id", "action_weights", kuairand, sizes({10, 9, 10, 8, 8, 246})},
          {"ml-1m",
           "movie_id",
           "rating",
           {"user_id", "sex", "age_group", "occupation", "zip_code"},
           {{"sex", 3}, {"age_group", 8}, {"occupation", 22}, {"zip_code", 3440}, {"rating", 11}}},
          {"ml-20m", "movie_id", "rating", {"user_id"}, {{"rating", 11}}}};
}

NvidiaData data_set(GinReader& settings) {
  const std::string name = settings.text("DatasetArgs.dataset_name", std::nullopt);
  const auto all = known_data();
  const auto known = std::ranges::find(all, name, &KnownData::name);
  if (known == all.end())
    settings.fault(
        "DatasetArgs.dataset_name",
        "kuairand-pure, kuairand-1k, kuairand-27k, ml-1m or ml-20m; describe another data set's tables "
        "by BenchmarkDatasetArgs");
  NvidiaData data{std::string(known->item), std::string(known->action), known->contexts, {}, 0, 0};
  for (const auto& [feature, rows] : known->sizes)
    data.tables.push_back({feature == "rating" ? "action_weights" : feature, {feature}, rows, false});
  for (const std::string& feature : {data.item, std::string("user_id")})
    data.tables.push_back({feature, {feature}, 0, true});
  data.events_max = settings.integer("DatasetArgs.max_history_seqlen", std::nullopt, 1, sequence_most);
  data.candidates_max = settings.integer("DatasetArgs.max_num_candidates", 0, 0, sequence_most);
  settings.ignore("DatasetArgs.dataset_path");
  settings.ignore("DatasetArgs.shuffle");
  return data;
}

// Reads the tables that the gin file describes itself, by references such as
// @item_embedding/DynamicEmbeddingArgs().
NvidiaData described_data(GinReader& settings) {
  NvidiaData data;
  data.item = settings.text("BenchmarkDatasetArgs.item_feature_name", std::nullopt);
  data.contexts = settings.names("BenchmarkDatasetArgs.contextual_feature_names");
  if (settings.has("BenchmarkDatasetArgs.action_feature_name"))
    data.action = settings.text("BenchmarkDatasetArgs.action_feature_name", std::nullopt);
  for (std::string name : settings.names("BenchmarkDatasetArgs.embedding_args")) {
    if (name.ends_with("()")) name.resize(name.size() - 2);
    NvidiaTable table;
    table.name = settings.text(name + ".table_name", std::nullopt);
    table.features = settings.names(name + ".feature_names");
    table.rows = settings.integer(name + ".item_vocab_size_or_capacity", std::nullopt, 1, vocabulary_most);
    table.dynamic = name.ends_with("/DynamicEmbeddingArgs");
    data.tables.push_back(std::move(table));
  }
  data.candidates_max = settings.integer("BenchmarkDatasetArgs.max_num_candidates", 0, 0, sequence_most);
  for (std::string name : settings.names("BenchmarkDatasetArgs.feature_args")) {
    if (name.ends_with("()")) name.resize(name.size() - 2);
    const auto features = settings.names(name + ".feature_names");
    if (std::ranges::find(features, data.item) != features.end())
      data.events_max = settings.integer(name + ".max_sequence_length", std::nullopt, 1, sequence_most);
  }
  if (data.events_max <= data.candidates_max)
    settings.fault(
        "BenchmarkDatasetArgs.feature_args",
        "a feature " + kernels::in_quotes(data.item) + " with max_sequence_length over max_num_candidates");
  data.events_max -= data.candidates_max;
  for (const char* const name : {"EmbeddingArgs.*", "DynamicEmbeddingArgs.*", "FeatureArgs.*",
                                 "RandomDistribution.*", "BenchmarkDatasetArgs.num_generated_batches"})
    settings.ignore(name);
  return data;
}

// Number behind `prefix` in a file's name, such as R in movie_id_emb_keys.rank_R.world_size_W.
std::optional<std::uint64_t> rank_of(std::string_view name, std::string_view prefix, std::string_view world) {
  if (!name.starts_with(prefix) || !name.ends_with(world) || name.size() < prefix.size() + world.size())
    return std::nullopt;
  name = name.substr(prefix.size(), name.size() - prefix.size() - world.size());
  std::uint64_t rank = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), rank);
  const bool whole = read.ec == std::errc() && read.ptr == name.data() + name.size();
  return whole && rank < ranks_most ? std::optional(rank) : std::nullopt;
}

// Returns the one folder below `folder` that has keys of the table.
fs::path folder_of_table(const fs::path& folder, const std::string& name) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_directory(error)) continue;
    for (const auto& file : fs::directory_iterator(entry.path(), error))
      if (file.path().filename().string().starts_with(name + "_emb_keys.rank_")) {
        found.push_back(entry.path());
        break;
      }
  }
  if (found.size() == 1) return found.front();
  kernels::throw_load_error(
      folder,
      found.empty() ? "no folder has keys of the table " + kernels::in_quotes(name)
                    : "two folders have keys of the table " + kernels::in_quotes(name),
      "one folder with " + name + "_emb_keys.rank_0.world_size_1, as checkpoint.save writes it");
}

// Returns the number of ranks that wrote the table. All of their files must be there.
std::uint64_t world_of(const fs::path& folder, const std::string& name) {
  const std::string prefix = name + "_emb_keys.rank_";
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (std::string file = entry.path().filename().string(); file.starts_with(prefix)) files.push_back(file);
  const std::uint64_t world = files.size();
  std::vector<bool> seen(world, false);
  for (const std::string& file : files) {
    const auto rank = rank_of(file, prefix, ".world_size_" + std::to_string(world));
    if (!rank || *rank >= world || seen[*rank])
      kernels::throw_load_error(folder / file, "is not one of " + std::to_string(world) + " ranks",
                                "the files of all ranks of one world, and no others");
    seen[*rank] = true;
  }
  return world;
}

void read_rank(const fs::path& keys_file, const fs::path& values_file, std::uint64_t columns,
               DynamicTable& table) {
  const kernels::MappedFile keys(keys_file), values(values_file);
  const std::uint64_t count = keys.bytes().size() / sizeof(std::int64_t);
  if (keys.bytes().size() % sizeof(std::int64_t) != 0 || count > table_rows_most)
    kernels::throw_load_error(keys_file, std::to_string(keys.bytes().size()) + " bytes of keys",
                              "at most " + std::to_string(table_rows_most) + " keys of 8 bytes");
  if (values.bytes().size() != count * columns * sizeof(float))
    kernels::throw_load_error(values_file, std::to_string(values.bytes().size()) + " bytes of values",
                              std::to_string(count) + " rows of " + std::to_string(columns) + " float32");
  const std::size_t first = table.keys.size();
  table.keys.resize(first + count);
  table.rows.resize((first + count) * columns);
  if (count == 0) return;
  std::memcpy(table.keys.data() + first, keys.bytes().data(), keys.bytes().size());
  std::memcpy(table.rows.data() + first * columns, values.bytes().data(), values.bytes().size());
}

DynamicTable sorted_table(const DynamicTable& table, std::uint64_t columns, const fs::path& folder) {
  std::vector<std::size_t> order(table.keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return table.keys[i]; });
  DynamicTable sorted;
  sorted.rows.reserve(table.rows.size());
  for (const std::size_t i : order) {
    if (!sorted.keys.empty() && sorted.keys.back() == table.keys[i])
      kernels::throw_load_error(folder, "the key " + std::to_string(table.keys[i]) + " occurs twice",
                                "each key once, in the files of one rank");
    sorted.keys.push_back(table.keys[i]);
    const auto row = table.rows.begin() + static_cast<std::ptrdiff_t>(i * columns);
    sorted.rows.insert(sorted.rows.end(), row, row + static_cast<std::ptrdiff_t>(columns));
  }
  return sorted;
}

}  // namespace

const NvidiaTable& NvidiaData::table_of(std::string_view feature, const std::filesystem::path& file) const {
  for (const NvidiaTable& table : tables)
    if (std::ranges::find(table.features, feature) != table.features.end()) return table;
  kernels::throw_load_error(file, "no embedding table has the feature " + kernels::in_quotes(feature),
                            "a table of each feature of the sequence");
}

NvidiaData read_nvidia_data(GinReader& settings) {
  if (settings.has("DatasetArgs.dataset_name")) return data_set(settings);
  if (settings.has("BenchmarkDatasetArgs.item_feature_name")) return described_data(settings);
  kernels::throw_load_error(settings.path(),
                            "there is no DatasetArgs.dataset_name and no BenchmarkDatasetArgs",
                            "one of them, because the checkpoint does not say which table is the items'");
}

DynamicTable read_dynamic_table(const std::filesystem::path& modules, const std::string& name,
                                std::uint64_t columns) {
  const fs::path folder = folder_of_table(modules, name);
  const std::uint64_t world = world_of(folder, name);
  DynamicTable table;
  for (std::uint64_t rank = 0; rank < world; ++rank) {
    const std::string end = ".rank_" + std::to_string(rank) + ".world_size_" + std::to_string(world);
    read_rank(folder / (name + "_emb_keys" + end), folder / (name + "_emb_values" + end), columns, table);
    if (table.keys.size() > table_rows_most)
      kernels::throw_load_error(folder, "the table " + kernels::in_quotes(name) + " has too many rows",
                                "at most " + std::to_string(table_rows_most));
  }
  if (!std::ranges::all_of(table.rows, [](float value) { return std::isfinite(value); }))
    kernels::throw_load_error(folder,
                              "the table " + kernels::in_quotes(name) + " has a value that is not finite",
                              "finite numbers");
  return sorted_table(table, columns, folder);
}

}  // namespace troupe::deploy
