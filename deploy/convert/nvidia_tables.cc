// Reads tables that are parameters of their own, parts of a flat parameter, or files of keys and rows.
#include "deploy/convert/nvidia_tables.h"

#include <algorithm>
#include <utility>

#include "deploy/data/text_file.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

constexpr std::string_view flat_prefix =
    "_embedding_collection._data_parallel_embedding_collection.embeddings.";
constexpr std::string_view flat_suffix = "_weights";
constexpr std::string_view parallel_prefix =
    "_embedding_collection._model_parallel_embedding_collection.embeddings.";
constexpr std::string_view preprocessor = "_hstu_block._preprocessor.";

// Returns the tables of a flat parameter, in their order: "…embeddings.sex/age_group_weights".
std::vector<std::string> tables_in(std::string_view parameter) {
  if (!parameter.starts_with(flat_prefix) || !parameter.ends_with(flat_suffix)) return {};
  parameter.remove_prefix(flat_prefix.size());
  parameter.remove_suffix(flat_suffix.size());
  const auto parts = split(parameter, '/');
  return {parts.begin(), parts.end()};
}

struct LinearLayer {
  std::vector<float> weight, bias;  // [out, in], [out]
  std::uint64_t in = 0, out = 0;
};

// Computes a linear layer for one row, in float64.
void apply(const LinearLayer& layer, const std::vector<double>& in, std::vector<double>& out, bool relu) {
  out.assign(layer.out, 0);
  for (std::uint64_t o = 0; o < layer.out; ++o) {
    double sum = layer.bias[o];
    for (std::uint64_t i = 0; i < layer.in; ++i) sum += double{layer.weight[o * layer.in + i]} * in[i];
    out[o] = relu ? std::max(sum, 0.0) : sum;
  }
}

}  // namespace

NvidiaTables::NvidiaTables(ModelBuilder& builder, const NvidiaData& data, std::filesystem::path folder)
    : builder_(builder), data_(data), folder_(std::move(folder)) {}

void NvidiaTables::write_items(std::uint64_t columns, std::uint64_t hidden, const std::string& mlp) {
  const NvidiaTable& table = data_.table_of(data_.item, builder_.settings().path());
  Rows rows = read_rows(table, columns);
  if (rows.count == 0)
    kernels::throw_load_error(folder_, "the table " + kernels::in_quotes(table.name) + " has no rows",
                              "items");
  ConvertedModel& model = builder_.model();
  model.num_items = rows.count;
  for (std::uint64_t row = 0; row < rows.count; ++row)
    model.items.push_back(
        {std::to_string(rows.keys.empty() ? static_cast<std::int64_t>(row) : rows.keys[row]), "", row + 1});
  std::vector<float> values(hidden, 0.0f);
  const std::vector<float> folded = through(std::move(rows.values), columns, hidden, mlp);
  values.insert(values.end(), folded.begin(), folded.end());
  builder_.add("item_embedding.weight", {rows.count + 1, hidden}, std::move(values),
               "item_embedding.weight from the table " + table.name +
                   ": the item with the n-th key is row n, "
                   "row 0 is none (items.jsonl has the keys)");
}

std::uint64_t NvidiaTables::write_values(const std::string& feature, const std::string& to,
                                         std::uint64_t columns, std::uint64_t hidden,
                                         const std::string& mlp) {
  const NvidiaTable& table = data_.table_of(feature, builder_.settings().path());
  Rows rows = read_rows(table, columns);
  if (!rows.keys.empty()) rows = dense(table, rows, columns);
  const std::uint64_t count = rows.count;
  builder_.add(to, {count, hidden}, through(std::move(rows.values), columns, hidden, mlp),
               to + " from the table " + table.name + ", row = value of " + feature);
  return count;
}

NvidiaTables::Rows NvidiaTables::read_rows(const NvidiaTable& table, std::uint64_t columns) {
  if (table.dynamic) {
    DynamicTable found = read_dynamic_table(folder_ / "dynamicemb_module", table.name, columns);
    builder_.report().read.push_back((folder_ / "dynamicemb_module").string() + ": table " + table.name +
                                     " of " + std::to_string(found.keys.size()) + " rows by key");
    const std::uint64_t count = found.keys.size();
    return {std::move(found.keys), std::move(found.rows), count};
  }
  const std::string own = std::string(parallel_prefix) + table.name + ".weight";
  if (builder_.tensors().has(own))
    return {
        {}, builder_.tensors().take(own, {table.rows, columns}, "the table's rows and width"), table.rows};
  const auto& objects = builder_.tensors().objects();
  if (std::ranges::find(objects, own) != objects.end())
    kernels::throw_load_error(folder_,
                              "the table " + kernels::in_quotes(table.name) + " is sharded over processes",
                              "a data-parallel or dynamic table");
  return read_flat(table, columns);
}

NvidiaTables::Rows NvidiaTables::read_flat(const NvidiaTable& table, std::uint64_t columns) {
  for (const std::string& parameter : builder_.tensors().names()) {
    const std::vector<std::string> names = tables_in(parameter);
    if (std::ranges::find(names, table.name) == names.end()) continue;
    std::uint64_t total = 0, first = 0;
    for (const std::string& name : names) {
      const auto known = std::ranges::find(data_.tables, name, &NvidiaTable::name);
      if (known == data_.tables.end())
        kernels::throw_load_error(builder_.settings().path(),
                                  "no binding describes the table " + kernels::in_quotes(name),
                                  "the number of its rows, because it shares a parameter with others");
      if (name == table.name) first = total;
      total += known->rows * columns;
    }
    auto& values = flat_[parameter];
    if (values.empty())
      values = builder_.tensors().take(parameter, {total}, "the rows and the width of its tables");
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    return {{}, {begin, begin + static_cast<std::ptrdiff_t>(table.rows * columns)}, table.rows};
  }
  kernels::throw_load_error(folder_, "the table " + kernels::in_quotes(table.name) + " is missing",
                            "a parameter with its name");
}

std::vector<float> NvidiaTables::through(std::vector<float> rows, std::uint64_t columns, std::uint64_t hidden,
                                         const std::string& mlp) {
  if (mlp.empty()) return rows;
  LinearLayer layers[2];
  for (int i = 0; i < 2; ++i) {
    const std::string name = std::string(preprocessor) + mlp + "._mlp." + std::to_string(2 * i);
    layers[i].in = i == 0 ? columns : hidden;
    layers[i].out = hidden;
    layers[i].weight = builder_.tensors().take(name + ".weight", {hidden, layers[i].in}, "hidden_size");
    layers[i].bias = builder_.tensors().take(name + ".bias", {hidden}, "hidden_size");
  }
  std::vector<float> folded;
  folded.reserve(rows.size() / columns * hidden);
  std::vector<double> in(columns), inner, out;
  for (std::uint64_t row = 0; row < rows.size() / columns; ++row) {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(row * columns);
    in.assign(begin, begin + static_cast<std::ptrdiff_t>(columns));
    apply(layers[0], in, inner, true);
    apply(layers[1], inner, out, false);
    for (const double value : out) folded.push_back(static_cast<float>(value));
  }
  builder_.report().transposed.push_back("each row went through the preprocessor's " + mlp);
  return folded;
}

// A value of a feature is its row, so the keys of a dynamic table must be numbers of rows, most of which
// exist; the others get zeros.
NvidiaTables::Rows NvidiaTables::dense(const NvidiaTable& table, const Rows& rows,
                                       std::uint64_t columns) const {
  const std::int64_t last = rows.keys.back();
  const std::uint64_t most = 4 * rows.count + 1024;
  if (rows.keys.front() < 0 || static_cast<std::uint64_t>(last) >= most)
    kernels::throw_load_error(folder_,
                              "the keys of the table " + kernels::in_quotes(table.name) + " reach from " +
                                  std::to_string(rows.keys.front()) + " to " + std::to_string(last),
                              "keys from 0 to " + std::to_string(most - 1) +
                                  ", because a value of this feature is a row: number its values anew");
  Rows result;
  result.count = static_cast<std::uint64_t>(last) + 1;
  result.values.assign(result.count * columns, 0.0f);
  for (std::uint64_t i = 0; i < rows.count; ++i)
    std::copy_n(rows.values.begin() + static_cast<std::ptrdiff_t>(i * columns), columns,
                result.values.begin() +
                    static_cast<std::ptrdiff_t>(static_cast<std::uint64_t>(rows.keys[i]) * columns));
  builder_.report().assumed.push_back("values of " + table.name + " without a row in the checkpoint (" +
                                      std::to_string(result.count - rows.count) + ") have zeros");
  return result;
}

void NvidiaTables::drop_others() {
  for (const std::string& name : builder_.tensors().names())
    if ((name.starts_with(flat_prefix) && !flat_.contains(name)))
      builder_.drop(name, "tables that no token of the sequence reads");
  for (const NvidiaTable& table : data_.tables)
    if (table.dynamic)
      builder_.drop(std::string(parallel_prefix) + table.name + ".weight", "stands for a dynamic table");
  for (const std::string& object : builder_.tensors().objects()) {
    if (!object.starts_with(parallel_prefix) && !object.ends_with("_extra_state")) continue;
    builder_.tensors().drop(object);
    builder_.report().dropped.push_back(builder_.tensors().prefix() + object + ": no tensor");
  }
}

}  // namespace troupe::deploy
