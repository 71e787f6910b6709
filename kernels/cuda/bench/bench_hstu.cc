// Computes the costs of HSTU's passes (engine/hstu.cc), launch by launch.
#include "kernels/cuda/bench/bench_work.h"

namespace troupe::kernels::cuda {
namespace {

// Attention of all users: each user's causal events, and candidates that see the events and
// themselves.
struct HstuSight {
  std::vector<AttendGroup> groups;
  std::vector<std::uint32_t> begin, end;
  double pairs = 0;

  HstuSight(const HstuShape& shape, bool with_events) {
    std::uint32_t key = 0;
    for (std::uint32_t user = 0; user < shape.users; ++user) {
      if (with_events) add_events(shape.events, key);
      add_candidates(shape, key);
      key += shape.events + shape.candidates;
    }
  }
  std::uint32_t rows() const { return static_cast<std::uint32_t>(begin.size()); }

 private:
  void add_events(std::uint32_t events, std::uint32_t key) {
    groups.push_back({rows(), rows() + events, key, 0, events});
    for (std::uint32_t r = 0; r < events; ++r) begin.push_back(0), end.push_back(r + 1), pairs += r + 1;
  }
  void add_candidates(const HstuShape& shape, std::uint32_t key) {
    groups.push_back({rows(), rows() + shape.candidates, key, shape.events, shape.candidates});
    for (std::uint32_t r = 0; r < shape.candidates; ++r) begin.push_back(r), end.push_back(r + 1);
    pairs += double{1} * shape.candidates * (shape.events + 1);
  }
};

double silu_seconds(const DataSheet& sheet, const HstuShape& shape, const HstuSight& sight) {
  const KvLayout layout{shape.layers, shape.heads, shape.head_dim, page_tokens, KvFormat::bf16};
  AttendPlan plan;
  plan_attention(
      attend_machine(layout, shape.heads, sheet.properties, AttendPath::by_device, ScorePolicy::silu),
      sight.groups, sight.begin, sight.end, plan);
  return plan.predicted_cycles / sheet.cycles_per_second;
}

}  // namespace

// For the first shape, a time of Meta's Triton path was published: 9.30 ms on an H100, where a
// quarter of the tokens was padding. This implementation has no padding; the last shape has three
// quarters of the first one's tokens.
std::vector<HstuShape> hstu_shapes() {
  HstuShape shape{.layers = 5,
                  .hidden = 512,
                  .heads = 4,
                  .head_dim = 128,
                  .users = 32,
                  .events = 1024,
                  .candidates = 2048};
  const auto named = [&](const std::string& what) {
    shape.text = what + ", " + std::to_string(shape.users) + " x (" + std::to_string(shape.events) + " + " +
                 std::to_string(shape.candidates) + ")";
    return shape;
  };
  std::vector<HstuShape> shapes{named("5 layers of 512")};
  shape.whole = true;
  shapes.push_back(named("5 x 512, whole pass"));
  shape.whole = false, shape.events = 768, shape.candidates = 1536;
  shapes.push_back(named("5 layers of 512, three quarters"));
  return shapes;
}

std::vector<Cost> hstu_costs(const HstuShape& shape) {
  const HstuSight all(shape, true), read(shape, false);
  const double d = shape.hidden, w = shape.heads * shape.head_dim, rows = all.rows();
  std::vector<Cost> costs;
  const auto memory = [&](double bytes) { costs.push_back({CostKind::memory, bytes, 0}); };
  const auto product = [&](double count, double inputs, double outputs, double out_bytes) {
    costs.push_back({CostKind::product, 2 * inputs * outputs + count * (2 * inputs + out_bytes * outputs),
                     2 * count * inputs * outputs});
  };
  if (shape.whole) memory(12 * rows * d);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const bool some = shape.whole && layer + 1 == shape.layers;
    const HstuSight& sight = some ? read : all;
    const double count = sight.rows();
    memory(6 * rows * d);             // norm, rounded
    product(rows, d, 4 * w, 4);       // gates, values, queries, keys
    memory(rows * w * (16 + 4 + 6));  // SiLU of these, written to their destinations
    if (some) memory(count * (8 * d + 4 * w));
    costs.push_back({CostKind::attention, count * w * 6 + rows * w * 4, 4 * w * sight.pairs,
                     [shape, sight](const DataSheet& sheet) { return silu_seconds(sheet, shape, sight); }});
    memory(count * w * 10);   // norm, gate, rounded
    product(count, w, d, 8);  // added to the states
  }
  if (!shape.whole) return costs;
  constexpr double inner = 64;  // of the task head
  memory(read.rows() * d * 6);
  product(read.rows(), d, inner, 4);
  memory(read.rows() * inner * 6);
  product(read.rows(), inner, 8, 4);
  return costs;
}

unsigned hstu_launches(const HstuShape& shape) { return 5 * shape.layers + (shape.whole ? 6 : 0); }

}  // namespace troupe::kernels::cuda
