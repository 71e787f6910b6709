// Benchmarks span attention over pages in scattered order, as in a pass.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/bench/bench_work.h"
#include "kernels/cuda/kernels/attend.h"

namespace troupe::kernels::cuda {
namespace {

struct SightRows {
  AttendGroup group;
  std::vector<std::uint32_t> begin, end;

  explicit SightRows(const PassGeometry& sight)
      : group{.row_end = sight.rows(), .context_tokens = sight.context, .tail_tokens = sight.rows()} {
    for (std::uint32_t row = 0; row < sight.rows(); ++row)
      begin.push_back(row / sight.segment * sight.segment), end.push_back(row + 1);
  }
  AttendPlan plan(const AttendMachine& machine) const {
    AttendPlan plan;
    plan_attention(machine, {&group, 1}, begin, end, plan);
    return plan;
  }
};

KvLayout layout_of(const BenchShape& shape) {
  return {shape.layers, shape.kv_heads, shape.head_dim(), page_tokens, KvFormat::bf16};
}

// A layer of a pass. Keys and values belong to the middle layer of pages that hold all layers.
class AttendCase {
 public:
  AttendCase(const BenchShape& shape, const PassGeometry& sight, AttendPath path, Chance& chance);
  void run(Stream& stream) const;
  // Checks a row of one query head, in double.
  CheckedSample check(std::size_t row) const;
  const DeviceNumbers& out() const { return out_; }

 private:
  void place_tokens(Chance& chance);
  void plan_rows();
  CheckedSample check_head(std::uint32_t row, std::uint32_t head) const;
  std::vector<double> stored(std::uint32_t key, bool value, std::uint32_t kv_head) const;

  const BenchShape shape_;
  const PassGeometry sight_;
  const AttendPath path_;
  const KvLayout layout_;
  const std::uint32_t dim_, width_, layer_;
  std::vector<std::size_t> places_;  // by token: bytes from the first page
  const SightRows rows_;
  AttendPlan plan_;
  DeviceNumbers pages_, queries_, out_;
  const std::vector<std::byte> page_bytes_;  // on the host, for checks
  DeviceMemory partials_;
  std::unique_ptr<DeviceList<const std::byte*>> addresses_;
  std::unique_ptr<DeviceList<AttendItem>> items_;
  std::unique_ptr<DeviceList<KeyTile>> tiles_;
  std::unique_ptr<DeviceList<AttendMerge>> merges_;
  std::unique_ptr<DeviceList<std::uint32_t>> visible_begin_, visible_end_;
};

AttendCase::AttendCase(const BenchShape& shape, const PassGeometry& sight, AttendPath path, Chance& chance)
    : shape_(shape),
      sight_(sight),
      path_(path),
      layout_(layout_of(shape)),
      dim_(shape.head_dim()),
      width_(shape.heads * dim_),
      layer_(shape.layers / 2),
      rows_(sight),
      pages_(NumberKind::bf16, layout_.pages_for(sight.keys()) * layout_.page_bytes() / 2, chance),
      queries_(NumberKind::bf16, std::size_t{sight.rows()} * width_, chance),
      out_(NumberKind::bf16, std::size_t{sight.rows()} * width_),
      page_bytes_(read_bytes(pages_.data(), pages_.size_bytes())) {
  place_tokens(chance);
  plan_rows();
}

void AttendCase::place_tokens(Chance& chance) {
  std::vector<std::size_t> order(layout_.pages_for(sight_.keys()));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), chance);
  std::vector<const std::byte*> addresses;
  for (std::uint32_t token = 0; token < sight_.keys(); ++token) {
    places_.push_back(order[token / page_tokens] * layout_.page_bytes() +
                      token % page_tokens * layout_.vector_bytes());
    addresses.push_back(pages_.data() + places_.back());
  }
  addresses_ = std::make_unique<DeviceList<const std::byte*>>(addresses);
}

void AttendCase::plan_rows() {
  plan_ = rows_.plan(attend_machine(layout_, shape_.heads, device_properties(0), path_));
  items_ = std::make_unique<DeviceList<AttendItem>>(plan_.items);
  tiles_ = std::make_unique<DeviceList<KeyTile>>(plan_.key_tiles);
  merges_ = std::make_unique<DeviceList<AttendMerge>>(plan_.merges);
  visible_begin_ = std::make_unique<DeviceList<std::uint32_t>>(rows_.begin);
  visible_end_ = std::make_unique<DeviceList<std::uint32_t>>(rows_.end);
  partials_ = DeviceMemory(attend_partial_bytes(layout_, plan_.partials, plan_.tile_vectors));
}

void AttendCase::run(Stream& stream) const {
  attend(layout_,
         {.addresses = addresses_->get(),
          .items = items_->get(),
          .key_tiles = tiles_->get(),
          .merges = merges_->get(),
          .visible_begin = visible_begin_->get(),
          .visible_end = visible_end_->get(),
          .partials = partials_.as<float>(),
          .item_count = static_cast<std::uint32_t>(plan_.items.size()),
          .merge_count = static_cast<std::uint32_t>(plan_.merges.size()),
          .tile_vectors = plan_.tile_vectors,
          .path = path_},
         {.queries = queries_.half(),
          .out = out_.half(),
          .query_stride = width_,
          .out_stride = width_,
          .layer = layer_,
          .heads = shape_.heads / shape_.kv_heads,
          .scale = 1 / std::sqrt(static_cast<float>(dim_))},
         stream);
}

std::vector<double> AttendCase::stored(std::uint32_t key, bool value, std::uint32_t kv_head) const {
  const std::size_t at =
      places_[key] + (value ? layout_.values(layer_, kv_head) : layout_.keys(layer_, kv_head));
  std::vector<std::uint16_t> bits(dim_);
  std::memcpy(bits.data(), &page_bytes_[at], 2 * dim_);
  std::vector<double> numbers;
  for (const std::uint16_t number : bits) numbers.push_back(from_bf16(number));
  return numbers;
}

// Uses the bounds of attend_test.cc: weights are rounded before they multiply values, outputs
// after.
CheckedSample AttendCase::check_head(std::uint32_t row, std::uint32_t head) const {
  const std::uint32_t kv_head = head / (shape_.heads / shape_.kv_heads);
  const std::vector<double> query = queries_.read(std::size_t{row} * width_ + head * dim_, dim_);
  std::vector<std::uint32_t> seen(sight_.context);
  std::iota(seen.begin(), seen.end(), 0u);
  for (std::uint32_t t = rows_.begin[row]; t < rows_.end[row]; ++t) seen.push_back(sight_.context + t);
  std::vector<double> weights;
  for (const std::uint32_t key : seen) {
    const std::vector<double> numbers = stored(key, false, kv_head);
    weights.push_back(std::exp(std::inner_product(query.begin(), query.end(), numbers.begin(), 0.0) /
                               std::sqrt(static_cast<double>(dim_))));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  CheckedSample checked{out_.read(std::size_t{row} * width_ + head * dim_, dim_), std::vector<double>(dim_),
                        std::vector<double>(dim_)};
  for (std::size_t k = 0; k < seen.size(); ++k) {
    const std::vector<double> numbers = stored(seen[k], true, kv_head);
    for (std::uint32_t i = 0; i < dim_; ++i) {
      checked.want[i] += weights[k] / total * numbers[i];
      checked.bound[i] += weights[k] / total * std::abs(numbers[i]) * (0x1p-8 + 0x1p-14);
    }
  }
  for (std::uint32_t i = 0; i < dim_; ++i) checked.bound[i] += std::abs(checked.want[i]) * 0x1p-8 + 1e-30;
  return checked;
}

CheckedSample AttendCase::check(std::size_t row) const {
  return check_head(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row % shape_.heads));
}

// Creates a work for the kernel that the device selects, or for mma.sync, which is an alternative
// on Hopper and the same kernel elsewhere.
BenchWork attend_work(const BenchShape& shape, const PassGeometry& sight, AttendPath path) {
  const double numbers = 2.0 * sight.keys() * shape.kv_heads * shape.head_dim() +
                         2.0 * sight.rows() * shape.heads * shape.head_dim();
  BenchWork work{
      .kernel = path == AttendPath::mma ? "attend_mma" : "attend",
      .shape = sight.text + ", " + std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) +
               " heads of " + std::to_string(shape.head_dim()),
      .steps = {{CostKind::attention, 2 * numbers, 4.0 * shape.head_dim() * shape.heads * sight.pairs(),
                 [=](const DataSheet& sheet) {
                   return attention_seconds(sheet, layout_of(shape), shape.heads, sight, path);
                 }}},
      .launches = 0,  // the prediction includes them
      .peer = {"attend",
               {{"context", sight.context},
                {"segments", sight.segments},
                {"segment", sight.segment},
                {"heads", shape.heads},
                {"kv_heads", shape.kv_heads},
                {"head_dim", shape.head_dim()}}}};
  if (path == AttendPath::mma) work.peer = {};
  work.prepare = [=](Chance& chance) {
    auto made = std::make_shared<AttendCase>(shape, sight, path, chance);
    return PreparedWork{.run = [=](Stream& stream) { made->run(stream); },
                        .outputs = {std::shared_ptr<const DeviceNumbers>(made, &made->out())},
                        .checks = sight.rows(),
                        .check = [=](std::size_t row) { return made->check(row); }};
  };
  return work;
}

}  // namespace

double attention_seconds(const DataSheet& sheet, const KvLayout& layout, std::uint32_t heads,
                         const PassGeometry& sight, AttendPath path) {
  const AttendPlan plan = SightRows(sight).plan(attend_machine(layout, heads, sheet.properties, path));
  return plan.predicted_cycles / sheet.cycles_per_second;
}

void print_tiles(const DataSheet& sheet, std::ostream& out) {
  const BenchShape shapes[] = {{.hidden = 2048, .heads = 16, .kv_heads = 8},
                               {.hidden = 1536, .heads = 12, .kv_heads = 2},
                               {.hidden = 896, .heads = 14, .kv_heads = 2}};
  const PassGeometry sights[] = {
      {"prefill 2048", 0, 1, 2048}, {"100 x 10 on 1500", 1500, 100, 10}, {"1000 on 1500", 1500, 1, 1000}};
  out << "\n## Tiles of query vectors\nPredicted times of attention on the " << sheet.device
      << ". The former rule used tiles of 64 for all of these, and split\nthem if they were fewer than two "
         "blocks per multiprocessor. The last column is former over chosen. If wgmma\nreached 65 % of its "
         "rate, the fourth row would have 1.49.\n\n"
         "| shape | former, us | 64 whole, us | 128 whole, us | chosen, us | x |\n"
         "| --- | ---: | ---: | ---: | ---: | ---: |\n";
  for (const BenchShape& shape : shapes)
    for (const PassGeometry& sight : sights) {
      const SightRows rows(sight);
      const AttendMachine machine = attend_machine(layout_of(shape), shape.heads, sheet.properties);
      AttendMachine former = machine;
      former.large = {};
      const std::size_t tiles = rows.plan(former).key_tiles.size() * shape.kv_heads;
      const std::uint32_t wanted = 2 * machine.multiprocessors,
                          blocks = (sight.rows() * machine.heads + 63) / 64 * shape.kv_heads;
      const std::size_t part = blocks >= wanted ? whole_result : (tiles + wanted - 1) / wanted;
      double before = 0, whole[2] = {}, least = INFINITY;  // microseconds; `whole` for tiles of 64 and 128
      for (const auto& choice : attend_choices(machine, {&rows.group, 1}, rows.begin, rows.end)) {
        const double time = choice.cycles / sheet.cycles_per_second * 1e6;
        if (choice.part_tiles == whole_result) whole[choice.tile_vectors / 128] = time;
        if (choice.tile_vectors == 64 && choice.part_tiles == part) before = time;
        least = std::min(least, time);
      }
      if (before == 0) before = whole[0];  // otherwise its parts would be longer than the whole
      char line[160];
      std::snprintf(line, sizeof line, "| %s, %u/%u heads of %u | %.1f | %.1f | %.1f | %.1f | %.2f |\n",
                    sight.text.c_str(), shape.heads, shape.kv_heads, shape.head_dim(), before, whole[0],
                    whole[1], least, before / least);
      out << line;
    }
}

void add_attend_works(const BenchShape& shape, std::vector<BenchWork>& works) {
  const auto on = [](const std::string& what, std::uint32_t context) {
    return what + " on " + std::to_string(context);
  };
  const std::uint32_t all = shape.history + shape.suffix;
  const std::string candidates =
      std::to_string(shape.candidates) + " x " + std::to_string(shape.candidate_tokens);
  const PassGeometry sights[] = {
      {on(std::to_string(shape.suffix), shape.history), shape.history, 1, shape.suffix},
      {on(candidates, shape.history), shape.history, shape.candidates, shape.candidate_tokens},
      {"prefill " + std::to_string(shape.prefill), 0, 1, shape.prefill},
      {"prefill " + std::to_string(shape.long_prefill), 0, 1, shape.long_prefill},
      {on("1", all), all, 1, 1}};
  for (const AttendPath path : {AttendPath::by_device, AttendPath::mma})
    for (const PassGeometry& sight : sights) works.push_back(attend_work(shape, sight, path));
}

}  // namespace troupe::kernels::cuda
