// Reads lists of items and writes converted models.
#include "deploy/convert/converted_model.h"

#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

#include "deploy/data/text_file.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/safetensors.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t item_id_bytes_max = 256;

// Finds the row of an item by its key in the checkpoint.
class RowsByKey {
 public:
  explicit RowsByKey(const ConvertedModel& model) : num_items_(model.num_items) {
    for (const ConvertedItem& item : model.items) rows_.emplace(item.id, item.row);
  }
  // Returns 0 if there is no such key.
  std::uint64_t row(std::string_view key) const {
    if (!rows_.empty()) {
      const auto found = rows_.find(key);
      return found == rows_.end() ? 0 : found->second;
    }
    std::uint64_t row = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), row);
    const bool whole = read.ec == std::errc() && read.ptr == key.data() + key.size();
    return whole && row <= num_items_ ? row : 0;
  }
  std::string words() const {
    return rows_.empty() ? "a row from 1 to " + std::to_string(num_items_) + ", the items of the checkpoint"
                         : "a key of the checkpoint's item table";
  }

 private:
  std::uint64_t num_items_;
  std::map<std::string, std::uint64_t, std::less<>> rows_;
};

ConvertedItem item_of_line(const TextFile& file, std::string_view line, const RowsByKey& rows) {
  const std::vector<std::string_view> fields = split(line, '\t');
  if (fields.size() > 3) file.fail(std::to_string(fields.size()) + " columns", "an id, or key, id and title");
  const std::string key = fields.size() == 1 ? std::to_string(file.line_number()) : std::string(fields[0]);
  ConvertedItem item;
  item.row = rows.row(key);
  item.id = fields.size() == 1 ? fields[0] : fields[1];
  if (fields.size() == 3) item.title = fields[2];
  if (item.row == 0) file.fail("key " + kernels::in_quotes(key), rows.words());
  if (item.id.empty() || item.id.size() > item_id_bytes_max)
    file.fail("an id of " + std::to_string(item.id.size()) + " bytes",
              "1 to " + std::to_string(item_id_bytes_max) + " bytes");
  return item;
}

constexpr const char* weights_file = "model.safetensors";
constexpr const char* catalog_file = "items.jsonl";
constexpr const char* config_file = "config.json";

// Returns whether the folder is new.
bool check_folder(const std::filesystem::path& folder) {
  std::error_code error;
  const bool is_new = std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder))
    throw std::runtime_error(folder.string() + ": cannot be made; expected a path for a model directory");
  if (!std::filesystem::is_empty(folder, error) || error)
    throw std::runtime_error(folder.string() +
                             ": has files; expected a new or empty folder, as models are "
                             "never changed in place");
  return is_new;
}

void write_files(const ConvertedModel& model, const std::filesystem::path& folder) {
  std::vector<kernels::NamedTensor> tensors;
  for (const ConvertedTensor& tensor : model.tensors)
    tensors.push_back({tensor.name, tensor.shape, tensor.values});
  kernels::write_safetensors(folder / weights_file, tensors, kernels::StoredAs::f32);
  if (!model.items.empty()) {
    std::string lines;
    for (const ConvertedItem& item : model.items) {
      nlohmann::ordered_json line{{"id", item.id}, {"tokens", {item.row}}, {"identifier", item.row}};
      if (!item.title.empty()) line["title"] = item.title;
      lines += line.dump() + "\n";
    }
    write_output((folder / catalog_file).string(), lines);
  }
  // Last, because a folder without it is no model.
  write_output((folder / config_file).string(), model.config.dump(2) + "\n");
}

}  // namespace

std::vector<ConvertedItem> read_item_list(const std::filesystem::path& path, const ConvertedModel& model) {
  TextFile file(path);
  const RowsByKey by_key(model);
  std::vector<ConvertedItem> items;
  std::set<std::string, std::less<>> ids;
  std::set<std::uint64_t> rows;
  std::optional<bool> has_keys;  // of the first line
  for (std::string line; file.next(line);) {
    if (line.empty()) continue;
    if (!is_utf8(line)) file.fail("the line is not UTF-8", "UTF-8, as every reader of the catalog takes it");
    const bool has_key = line.find('\t') != line.npos;
    if (has_keys.value_or(has_key) != has_key)
      file.fail(std::string("the line has ") + (has_key ? "a key" : "no key") + ", and the first one has " +
                    (has_key ? "none" : "one"),
                "a key and a tab before each id, or before none");
    has_keys = has_key;
    ConvertedItem item = item_of_line(file, line, by_key);
    if (!ids.insert(item.id).second)
      file.fail("item " + kernels::in_quotes(item.id) + " occurs twice", "each id once");
    if (!rows.insert(item.row).second)
      file.fail("the key of row " + std::to_string(item.row) + " occurs twice", "each key once");
    items.push_back(std::move(item));
  }
  if (items.empty()) LinePosition{file.place().file, 1}.fail("no items", "one item a line");
  return items;
}

void write_model(const ConvertedModel& model, const std::filesystem::path& folder) {
  const bool is_new = check_folder(folder);
  try {
    write_files(model, folder);
  } catch (...) {  // the folder was empty, so nothing else is removed
    std::error_code ignored;
    for (const char* const file : {config_file, catalog_file, weights_file})
      std::filesystem::remove(folder / file, ignored);
    if (is_new) std::filesystem::remove(folder, ignored);
    throw;
  }
}

}  // namespace troupe::deploy
