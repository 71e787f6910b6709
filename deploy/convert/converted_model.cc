// Reads lists of items and writes converted models.
#include "deploy/convert/converted_model.h"

#include <fstream>
#include <set>
#include <stdexcept>
#include <string_view>

#include "deploy/data/text_file.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/safetensors.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t item_id_bytes_max = 256;

ConvertedItem item_of_line(const TextFile& file, std::string_view line, std::uint64_t num_items) {
  const std::vector<std::string_view> fields = split(line, '\t');
  if (fields.size() > 3) file.fail(std::to_string(fields.size()) + " columns", "an id, or row, id and title");
  ConvertedItem item;
  item.row = fields.size() == 1 ? file.line_number() : parse_number(file, fields[0], "row", num_items);
  item.id = fields.size() == 1 ? fields[0] : fields[1];
  if (fields.size() == 3) item.title = fields[2];
  if (item.row == 0 || item.row > num_items)
    file.fail("row " + std::to_string(item.row),
              "a row from 1 to " + std::to_string(num_items) + ", the items of the checkpoint");
  if (item.id.empty() || item.id.size() > item_id_bytes_max)
    file.fail("an id of " + std::to_string(item.id.size()) + " bytes",
              "1 to " + std::to_string(item_id_bytes_max) + " bytes");
  return item;
}

void check_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder))
    throw std::runtime_error(folder.string() + ": cannot be made; expected a path for a model directory");
  if (!std::filesystem::is_empty(folder, error) || error)
    throw std::runtime_error(folder.string() +
                             ": has files; expected a new or empty folder, as models are "
                             "never changed in place");
}

}  // namespace

std::vector<ConvertedItem> read_item_list(const std::filesystem::path& path, std::uint64_t num_items) {
  TextFile file(path);
  std::vector<ConvertedItem> items;
  std::set<std::string, std::less<>> ids;
  std::set<std::uint64_t> rows;
  for (std::string line; file.next(line);) {
    if (line.empty()) continue;
    ConvertedItem item = item_of_line(file, line, num_items);
    if (!ids.insert(item.id).second)
      file.fail("item " + kernels::in_quotes(item.id) + " occurs twice", "each id once");
    if (!rows.insert(item.row).second)
      file.fail("row " + std::to_string(item.row) + " occurs twice", "each row once");
    items.push_back(std::move(item));
  }
  if (items.empty()) file.fail("no items", "one item a line");
  return items;
}

void write_model(const ConvertedModel& model, const std::filesystem::path& folder) {
  check_folder(folder);
  std::vector<kernels::NamedTensor> tensors;
  for (const ConvertedTensor& tensor : model.tensors)
    tensors.push_back({tensor.name, tensor.shape, tensor.values});
  kernels::write_safetensors(folder / "model.safetensors", tensors, kernels::StoredAs::f32);
  if (!model.items.empty()) {
    std::string lines;
    for (const ConvertedItem& item : model.items) {
      nlohmann::ordered_json line{{"id", item.id}, {"tokens", {item.row}}, {"identifier", item.row}};
      if (!item.title.empty()) line["title"] = item.title;
      lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
    write_output((folder / "items.jsonl").string(), lines);
  }
  // Last, because a folder without it is no model.
  write_output((folder / "config.json").string(), model.config.dump(2) + "\n");
}

}  // namespace troupe::deploy
