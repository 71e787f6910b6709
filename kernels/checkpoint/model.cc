// Reads a decoder from a Hugging Face directory, in one safetensors file or several with an index,
// and writes one. All files and tensors are checked before use.
#include "kernels/checkpoint/model.h"

#include <fstream>
#include <optional>
#include <set>

#include "kernels/base/check.h"
#include "kernels/checkpoint/decoder_tensors.h"
#include "kernels/checkpoint/file_kind.h"
#include "kernels/checkpoint/hf_config.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/safetensors.h"

namespace troupe::kernels {
namespace {

constexpr char kWeightsFile[] = "model.safetensors", kIndexFile[] = "model.safetensors.index.json";
constexpr char kHead[] = "lm_head.weight", kEmbedding[] = "model.embed_tokens.weight";
constexpr std::uint64_t kIndexBytesMax = std::uint64_t{64} << 20;
constexpr std::size_t kIndexValuesMax = 2'000'000;

// The files of a checkpoint and which tensor is in which.
struct Checkpoint {
  std::filesystem::path named_by;  // file that an error about a missing tensor names
  std::vector<SafetensorsFile> files;
  std::map<std::string, const SafetensorsFile*> place;  // tensor name → one of `files`
  std::string embedding_name = kEmbedding;              // under which the embedding is stored

  // Returns a tensor's name in the files. Models without an output, such as embedding models, are saved
  // without the prefix of the others.
  std::string stored_name(const std::string& name) const {
    constexpr std::string_view prefix = "model.";
    if (place.contains("embed_tokens.weight") && name.starts_with(prefix)) return name.substr(prefix.size());
    return name == kEmbedding ? embedding_name : name;
  }
};

bool plain_file_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
         name != "." && name != "..";
}

// tensor name → file name
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& index) {
  const nlohmann::json document = read_json_file(index, kIndexBytesMax, kIndexValuesMax);
  const JsonFields fields(index, document);
  const nlohmann::json* const map = fields.find("weight_map");
  if (!map || !map->is_object()) fields.fault("weight_map", "an object: tensor name to file name");
  const JsonFields places(index, *map, "weight_map");
  std::map<std::string, std::string> result;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || !plain_file_name(file.get_ref<const std::string&>()))
      places.fault(name, "a plain file name");
    result.emplace(name, file.get<std::string>());
  }
  return result;
}

Checkpoint open_single(const std::filesystem::path& file) {
  Checkpoint checkpoint;
  checkpoint.named_by = file;
  checkpoint.files.emplace_back(file);
  for (const auto& [name, tensor] : checkpoint.files[0].tensors())
    checkpoint.place[name] = &checkpoint.files[0];
  return checkpoint;
}

Checkpoint open_sharded(const std::filesystem::path& index) {
  const std::map<std::string, std::string> weight_map = read_weight_map(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  Checkpoint checkpoint;
  checkpoint.named_by = index;
  checkpoint.files.reserve(names.size());  // `place` points into it
  for (const std::string& name : names) {
    const SafetensorsFile& file = checkpoint.files.emplace_back(index.parent_path() / name);
    for (const auto& [tensor, stored] : file.tensors()) {
      const auto listed = weight_map.find(tensor);
      if (listed == weight_map.end() || listed->second != name)
        throw_load_error(file.path(), "holds tensor " + in_quotes(tensor),
                         "only tensors that the index places here");
      checkpoint.place[tensor] = &file;
    }
  }
  for (const auto& [tensor, file] : weight_map)
    if (!checkpoint.place.contains(tensor))
      throw_load_error(index, "weight_map places tensor " + in_quotes(tensor) + " in " + in_quotes(file),
                       "a file that holds it");
  return checkpoint;
}

Checkpoint open_checkpoint(const std::filesystem::path& directory) {
  std::error_code error;
  const bool single = std::filesystem::exists(directory / kWeightsFile, error);
  const bool sharded = std::filesystem::exists(directory / kIndexFile, error);
  if (single && sharded)
    throw_load_error(directory, std::string("has both ") + kWeightsFile + " and " + kIndexFile,
                     "one of them");
  refuse_other_weights(directory);
  return sharded ? open_sharded(directory / kIndexFile) : open_single(directory / kWeightsFile);
}

// Buffers of older checkpoints, and the head, which check_tied_head() has found equal.
bool ignored(const DecoderConfig& config, const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || (config.tied_embeddings && name == kHead);
}

using Slots = std::vector<TensorSlot<DecoderWeights>>;

// Finds a tied embedding under the head's name: libraries that save shared tensors once may keep that.
void name_embedding(const DecoderConfig& config, Checkpoint& checkpoint) {
  if (config.tied_embeddings && !checkpoint.place.contains(checkpoint.stored_name(kEmbedding)) &&
      checkpoint.place.contains(kHead))
    checkpoint.embedding_name = kHead;
}

// Returns the first row in which two tensors of this shape differ, or nothing. Values that are not
// finite differ from everything.
std::optional<std::uint64_t> first_difference(const SafetensorsFile& a_file, const StoredTensor& a,
                                              const SafetensorsFile& b_file, const StoredTensor& b) {
  const std::uint64_t rows = a.shape[0], width = a.shape[1];
  std::vector<float> a_row(width), b_row(width);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const bool finite = a_file.read(a, row * width, a_row) && b_file.read(b, row * width, b_row);
    if (!finite || a_row != b_row) return row;
  }
  return std::nullopt;
}

// A head beside a tied embedding must be its copy: training may have untied it, and then all scores
// come from it.
void check_tied_head(const DecoderConfig& config, const Checkpoint& checkpoint) {
  const std::string name = checkpoint.stored_name(kEmbedding);
  const auto head = checkpoint.place.find(kHead), embedding = checkpoint.place.find(name);
  if (!config.tied_embeddings || head == checkpoint.place.end() || embedding == checkpoint.place.end() ||
      name == kHead)
    return;
  const StoredTensor &stored = head->second->tensors().at(kHead),
                     &wanted = embedding->second->tensors().at(name);
  const std::string tensor = "tensor " + in_quotes(kHead);
  const std::string expected = "a copy of " + in_quotes(name) + ", as tie_word_embeddings is true in " +
                               kConfigFile + "; make it false to use this head";
  if (stored.shape != wanted.shape)
    throw_load_error(head->second->path(), tensor + " has shape " + shape_text(stored.shape), expected);
  if (!has_values(stored) || !has_values(wanted))
    throw_load_error(head->second->path(), tensor + " has dtype " + stored.dtype, expected);
  if (const auto row = first_difference(*head->second, stored, *embedding->second, wanted))
    throw_load_error(head->second->path(),
                     tensor + " differs from the embedding in row " + std::to_string(*row), expected);
}

void check_tensors(const DecoderConfig& config, const Slots& slots, const Checkpoint& checkpoint) {
  std::set<std::string> known;
  for (const auto& slot : slots) {
    const std::string name = checkpoint.stored_name(slot.name);
    known.insert(name);
    const auto found = checkpoint.place.find(name);
    if (found == checkpoint.place.end())
      throw_load_error(checkpoint.named_by, "tensor " + in_quotes(name) + " is missing",
                       "shape " + shape_text(slot.shape));
    const StoredTensor& stored = found->second->tensors().at(name);
    if (stored.shape != slot.shape)
      throw_load_error(found->second->path(),
                       "tensor " + in_quotes(name) + " has shape " + shape_text(stored.shape),
                       shape_text(slot.shape) + ", by " + kConfigFile);
  }
  for (const auto& [name, file] : checkpoint.place)
    if (!known.contains(name) && !ignored(config, name))
      throw_load_error(file->path(), "unknown tensor " + in_quotes(name),
                       "only tensors that the model of config.json has");
}

// Cuts the tensors into `shards` runs of about the same size, each with at least one tensor.
std::vector<std::vector<NamedTensor>> cut(std::vector<NamedTensor> tensors, std::uint32_t shards) {
  TROUPE_CHECK(shards >= 1 && shards <= tensors.size(), "shards: expected at least one tensor in each");
  std::uint64_t total = 0, before = 0;
  for (const NamedTensor& tensor : tensors) total += tensor.values.size();
  std::vector<std::vector<NamedTensor>> cuts(shards);
  std::size_t shard = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool full = before >= total * (shard + 1) / shards;
    const bool needed = tensors.size() - i <= shards - 1 - shard;  // one each for the shards still empty
    if (!cuts[shard].empty() && shard + 1 < shards && (full || needed)) ++shard;
    before += tensors[i].values.size();
    cuts[shard].push_back(std::move(tensors[i]));
  }
  return cuts;
}

std::string padded(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw_load_error(file, "cannot be written", "a writable path with enough free space");
}

void write_shards(const std::filesystem::path& directory, const std::vector<std::vector<NamedTensor>>& cuts,
                  StoredAs stored_as) {
  nlohmann::ordered_json weight_map = nlohmann::ordered_json::object();
  std::uint64_t total_bytes = 0;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::string name = "model-" + padded(i + 1) + "-of-" + padded(cuts.size()) + ".safetensors";
    write_safetensors(directory / name, cuts[i], stored_as);
    for (const NamedTensor& tensor : cuts[i]) {
      weight_map[tensor.name] = name;
      total_bytes += tensor.values.size() * (stored_as == StoredAs::f32 ? 4 : 2);
    }
  }
  const nlohmann::ordered_json index{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}};
  write_text(directory / kIndexFile, index.dump(2) + "\n");
}

}  // namespace

DecoderModel read_decoder(const std::filesystem::path& directory) {
  DecoderModel model;
  model.config = read_decoder_config(directory);
  model.weights = empty_weights(model.config);
  Checkpoint checkpoint = open_checkpoint(directory);
  name_embedding(model.config, checkpoint);
  const Slots slots = decoder_tensors(model.config, model.weights);
  check_tensors(model.config, slots, checkpoint);
  check_tied_head(model.config, checkpoint);
  for (const auto& slot : slots) {
    const std::string name = checkpoint.stored_name(slot.name);
    *slot.values = checkpoint.place.at(name)->values(name);
  }
  model.version = decoder_version(model.config, model.weights);
  return model;
}

void write_decoder(const DecoderModel& model, const std::filesystem::path& directory, StoredAs stored_as,
                   std::uint32_t shards) {
  std::filesystem::create_directories(directory);
  std::vector<NamedTensor> tensors;
  for (const auto& slot : decoder_tensors(model.config, model.weights))
    tensors.push_back({slot.name, slot.shape, *slot.values});
  write_text(directory / kConfigFile, config_text(model.config, stored_as));
  // Removes what an earlier write left in the other form; both would make the directory ambiguous.
  std::filesystem::remove(directory / (shards == 1 ? kIndexFile : kWeightsFile));
  if (shards == 1)
    write_safetensors(directory / kWeightsFile, tensors, stored_as);
  else
    write_shards(directory, cut(std::move(tensors), shards), stored_as);
}

}  // namespace troupe::kernels
