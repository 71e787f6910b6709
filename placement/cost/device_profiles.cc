// Table of known devices, links and models with their published figures, and the text form in which
// a calibrated device is written and read.
#include "placement/cost/device_profiles.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <vector>

namespace troupe::placement {

namespace {

// Assumed engine properties by device class, used until a device is calibrated. An engine such as
// vLLM reaches about half of the published peak in prefill on large GPUs, and more where the peak
// is low (H20: a seventh of an H100's arithmetic behind more bandwidth). A layer is about ten
// launches, queued one after the other. Half saturation: the tokens at which 128-row tiles of a
// product occupy half of the processors; a GPU with more arithmetic needs more.
struct EngineDefaults {
  double efficiency, launch_us, launches_per_layer, half_tokens;
};
constexpr EngineDefaults ampere{0.55, 3, 10, 128}, hopper{0.50, 2.5, 10, 256},
    hopper_small{0.75, 2.5, 10, 64}, ada{0.60, 3, 10, 96};

// Dense operations per second (no structured sparsity), in tera; bandwidth in GB/s; memory in GB.
DeviceProfile gpu(const char* name, double f32, double bf16, double int8, double bandwidth, double memory,
                  const EngineDefaults& engine) {
  return {name,
          {f32 * 1e12, bf16 * 1e12, int8 * 1e12},
          bandwidth * 1e9,
          memory * 1e9,
          engine.efficiency,
          engine.launch_us,
          engine.launches_per_layer,
          engine.half_tokens,
          false};
}

const std::vector<DeviceProfile>& devices() {
  static const std::vector<DeviceProfile> all{
      // NVIDIA A100 Tensor Core GPU data sheet, SXM columns.
      gpu("A100-40G", 19.5, 312, 624, 1555, 40, ampere),
      gpu("A100-80G", 19.5, 312, 624, 2039, 80, ampere),
      // NVIDIA publishes no data sheet; these figures are from the HGX H20 product table of its
      // server vendors.
      gpu("H20", 44, 148, 296, 4000, 96, hopper_small),
      // NVIDIA H100 and H200 Tensor Core GPU data sheets, SXM columns, halved where they count sparsity.
      gpu("H100", 67, 989, 1979, 3350, 80, hopper),
      gpu("H200", 67, 989, 1979, 4800, 141, hopper),
      // NVIDIA's product page (14,592 CUDA cores at 2.52 GHz, GDDR6X at 21 Gbps on 384 bits).
      // Tensor peaks: the Ada white paper's figures for the 4090 (16-bit with 32-bit sums), scaled
      // to 114 of its 128 processors.
      gpu("4090D", 73.5, 147, 588, 1008, 24, ada),
      // A core of the machine on which Troupe is developed, an Intel Xeon (Sapphire Rapids) at
      // 2.1 GHz, with Troupe's own engine: two AVX-512 units, 2 × 16 multiply-adds per cycle.
      // 16-bit numbers count as float32, which holds on every CPU; where AVX512_BF16 doubles them,
      // `troupe-lab bench calibrate` samples the rate. int8 multiplies four per lane (VNNI). The other
      // numbers are calibrated; the bandwidth is that of small models, which
      // caches hold in part.
      {"cpu", {134.4e9, 134.4e9, 537.6e9}, 28e9, 24e9, 0.8, 0, 1, 6, true}};
  return all;
}

// PCIe 3 and later carry 128 payload bits of 130, on 16 lanes at 8, 16 and 32 GT/s; packet headers
// and DMA leave about 80 %. Networks: the nominal rate, of which RDMA reaches about 90 %; the
// latency is that of one remote read.
const std::vector<LinkProfile>& links() {
  static const std::vector<LinkProfile> all{{"pcie3", 10, 15.75e9, 0.8}, {"pcie4", 10, 31.5e9, 0.8},
                                            {"pcie5", 10, 63e9, 0.8},    {"10gbps", 10, 1.25e9, 0.9},
                                            {"100gbps", 4, 12.5e9, 0.9}, {"200gbps", 3, 25e9, 0.9},
                                            {"400gbps", 3, 50e9, 0.9}};
  return all;
}

// Shapes from each model's config.json, with keys and values in 16 bits. A readout scores two rows,
// as a pointwise ranker does (yes and no).
ModelShape shape(const char* name, std::uint32_t layers, std::uint32_t hidden, std::uint32_t heads,
                 std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t intermediate) {
  return {name,         layers, hidden, heads, kv_heads,        head_dim,
          intermediate, 2,      2,      2,     Precision::bf16, Precision::bf16};
}

const std::vector<ModelShape>& shapes() {
  static const std::vector<ModelShape> all{
      // BAT, Table 2.
      shape("qwen2-1.5b", 28, 1536, 12, 2, 128, 8960), shape("qwen2-7b", 28, 3584, 28, 4, 128, 18944),
      shape("llama3-1b", 16, 2048, 32, 8, 64, 8192),
      // RcLLM §IV-A; xGR §9.
      shape("qwen3-8b", 36, 4096, 32, 8, 128, 12288), shape("qwen3-0.6b", 28, 1024, 16, 8, 128, 3072),
      shape("qwen3-1.7b", 28, 2048, 16, 8, 128, 6144), shape("qwen3-4b", 36, 2560, 32, 8, 128, 9728),
      // The first Qwen-72B, which has a key and a value per head.
      shape("qwen-72b", 80, 8192, 64, 64, 128, 24576)};
  return all;
}

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

template <class Named>
const Named& find(const std::vector<Named>& all, std::string_view kind, std::string_view name) {
  for (const Named& one : all)
    if (same_name(one.name, name)) return one;
  std::string names;
  for (const Named& one : all) names += (names.empty() ? "" : ", ") + one.name;
  throw std::invalid_argument(std::string(kind) + " is " + std::string(name.substr(0, 40)) +
                              "; expected one of " + names);
}

// A number of a profile; the table below is in the order of the text.
struct Field {
  std::string_view key, meaning;
  double& (*of)(DeviceProfile&);
};
constexpr Field fields[] = {
    {"peak_f32", "operations per second; a multiply-add counts as two",
     [](auto& d) -> double& { return d.peak_ops[0]; }},
    {"peak_bf16", "likewise; also for fp16", [](auto& d) -> double& { return d.peak_ops[1]; }},
    {"peak_int8", "likewise", [](auto& d) -> double& { return d.peak_ops[2]; }},
    {"bandwidth", "device memory bandwidth, bytes per second",
     [](auto& d) -> double& { return d.bandwidth; }},
    {"memory_bytes", "device memory, bytes", [](auto& d) -> double& { return d.memory_bytes; }},
    {"efficiency", "share of peaks and bandwidth that large batches reach",
     [](auto& d) -> double& { return d.efficiency; }},
    {"launch_us", "launch overhead of one operation, microseconds",
     [](auto& d) -> double& { return d.launch_us; }},
    {"launches_per_layer", "", [](auto& d) -> double& { return d.launches_per_layer; }},
    {"half_tokens", "new tokens per batch at which arithmetic runs at half its speed",
     [](auto& d) -> double& { return d.half_tokens; }}};
// Numbers of the machine and of its work outside passes; a profile may leave them out, and they are
// then 0.
constexpr Field machine_fields[] = {{"split_share", "share of a lone pass that idle cores may take over",
                                     [](auto& d) -> double& { return d.split_share; }},
                                    {"idle_share", "share of one core that is busy even without requests",
                                     [](auto& d) -> double& { return d.host.idle_share; }},
                                    {"wait_us", "microseconds per request while threads are woken",
                                     [](auto& d) -> double& { return d.host.wait_us; }}};
constexpr std::string_view name_key = "name", trims_key = "trims_last_layer", component_prefix = "host_";

std::string required_keys() {
  std::string keys(name_key);
  for (const Field& field : fields) keys += ", " + std::string(field.key);
  return keys + ", " + std::string(trims_key);
}

// Returns the key of a room's line, such as "host_kv_cache_worker".
std::string component_key(HostComponent component) {
  std::string key(component_prefix);
  for (const char c : name_of(component)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    key += !letter ? '_' : c < 'a' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return key;
}

std::string all_keys() {
  std::string keys = required_keys();
  for (const Field& field : machine_fields) keys += ", " + std::string(field.key);
  for (std::size_t component = 0; component < host_components; ++component)
    keys += ", " + component_key(static_cast<HostComponent>(component));
  return keys;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// In the order of the numbers in a room's line.
constexpr double HostUnits::*unit_members[] = {&HostUnits::requests,  &HostUnits::parts, &HostUnits::blocks,
                                               &HostUnits::mebibytes, &HostUnits::kept,  &HostUnits::cold};

std::string machine_text(const DeviceProfile& device) {
  std::string text;
  DeviceProfile readable = device;
  const auto add = [&](const Field& field) {
    text += std::string(field.key) + ": " + shortest(field.of(readable)) + "  # " +
            std::string(field.meaning) + "\n";
  };
  if (device.split_share > 0) add(machine_fields[0]);
  if (!device.host.charges()) return text;
  for (const Field& field : std::span(machine_fields).subspan(1)) add(field);
  text +=
      "# CPU microseconds by component: per request, per part of its prompt, per block, per mebibyte, per "
      "kept block, per cold pass.\n";
  for (std::size_t component = 0; component < host_components; ++component) {
    text += component_key(static_cast<HostComponent>(component)) + ':';
    for (const auto member : unit_members) (text += ' ') += shortest(device.host.costs[component].*member);
    text += '\n';
  }
  return text;
}

// Reads one line after the other. The profile is valid after every line, so a fault is always in
// the last line.
class DeviceReader {
 public:
  explicit DeviceReader(const std::string& where) : where_(where), device_(devices().front()) {
    device_.name.clear();
  }

  void line(std::string_view text) {
    ++line_;
    text = trimmed(text.substr(0, text.find('#')));
    if (text.empty()) return;
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos)
      fail("\"" + std::string(text.substr(0, 40)) + "\" has no colon; expected key: value");
    const std::string_view key = trimmed(text.substr(0, colon));
    if (std::ranges::find(seen_, key) != seen_.end())
      fail(std::string(key) + " is there twice; expected once");
    set(key, trimmed(text.substr(colon + 1)));
    seen_.emplace_back(key);
    if (const std::string fault = validate(device_); !fault.empty()) fail(fault);
  }

  DeviceProfile end() const {
    const auto need = [&](std::string_view key) {
      if (std::ranges::find(seen_, key) == seen_.end())
        throw std::invalid_argument(where_ + ": " + std::string(key) + " is missing; expected all of " +
                                    required_keys());
    };
    need(name_key);
    for (const Field& field : fields) need(field.key);
    need(trims_key);
    return device_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(where_ + ":" + std::to_string(line_) + ": " + what);
  }

  void set(std::string_view key, std::string_view value) {
    const auto wrong = [&](const char* expected) {
      fail(std::string(key) + " is \"" + std::string(value.substr(0, 40)) + "\"; expected " + expected);
    };
    if (key == name_key) {
      if (value.empty()) wrong("a name");
      device_.name = value;
      return;
    }
    if (key == trims_key) {
      if (value != "true" && value != "false") wrong("true or false");
      device_.trims_last_layer = value == "true";
      return;
    }
    for (const std::span<const Field> table :
         {std::span<const Field>(fields), std::span<const Field>(machine_fields)})
      for (const Field& field : table) {
        if (field.key != key) continue;
        const std::optional<double> read = number(value);
        if (!read) wrong("a number, such as 1.5e9");
        field.of(device_) = *read;
        return;
      }
    for (std::size_t component = 0; component < host_components; ++component)
      if (component_key(static_cast<HostComponent>(component)) == key) {
        if (!set_component_costs(device_.host.costs[component], value))
          wrong("four or six numbers, such as 12.5 0.3 0.1 0");
        return;
      }
    fail(std::string(key.substr(0, 40)) + " is no key; expected one of " + all_keys());
  }

  // The last two numbers were added later; a line without them leaves them 0.
  static bool set_component_costs(HostUnits& costs, std::string_view text) {
    costs = {};
    for (double HostUnits::*const member : unit_members) {
      if (text.empty() && member == &HostUnits::kept) break;
      const std::size_t end = std::min(text.find(' '), text.size());
      const std::optional<double> read = number(text.substr(0, end));
      if (!read) return false;
      costs.*member = *read;
      text = trimmed(text.substr(end));
    }
    return text.empty();
  }

  const std::string& where_;
  DeviceProfile device_;
  std::size_t line_ = 0;
  std::vector<std::string> seen_;
};

}  // namespace

std::span<const DeviceProfile> known_devices() { return devices(); }
std::span<const LinkProfile> known_links() { return links(); }
std::span<const ModelShape> known_shapes() { return shapes(); }

const DeviceProfile& find_device(std::string_view name) { return find(devices(), "device", name); }
const LinkProfile& find_link(std::string_view name) { return find(links(), "link", name); }
const ModelShape& find_shape(std::string_view name) { return find(shapes(), "model shape", name); }

DeviceProfile times_cores(const DeviceProfile& core, std::uint32_t cores) {
  DeviceProfile all = core;
  all.name += "-" + std::to_string(cores);
  for (double& peak : all.peak_ops) peak *= cores;
  all.bandwidth *= cores;
  return all;
}

std::string device_text(const DeviceProfile& device) {
  if (const std::string fault = validate(device); !fault.empty()) throw std::invalid_argument(fault);
  if (device.name.empty() || trimmed(device.name) != device.name ||
      device.name.find_first_of("#\r\n") != std::string::npos)
    throw std::invalid_argument("device name is \"" + device.name.substr(0, 40) +
                                "\"; expected one line without # or spaces around it");
  std::string text = std::string(name_key) + ": " + device.name + "\n";
  DeviceProfile readable = device;
  for (const Field& field : fields) {
    text += std::string(field.key) + ": " + shortest(field.of(readable));
    text += field.meaning.empty() ? "\n" : "  # " + std::string(field.meaning) + "\n";
  }
  return text + std::string(trims_key) + ": " + (device.trims_last_layer ? "true" : "false") +
         "  # in the last layer, only tokens with a readout go past keys and values\n" + machine_text(device);
}

DeviceProfile parse_device(std::string_view text, const std::string& where) {
  DeviceReader reader(where);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    reader.line(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return reader.end();
}

}  // namespace troupe::placement
