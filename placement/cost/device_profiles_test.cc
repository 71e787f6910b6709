#include "placement/cost/device_profiles.h"

#include <doctest/doctest.h>

#include <random>
#include <stdexcept>
#include <vector>

namespace troupe::placement {
namespace {

std::string refusal_of(const std::string& text) {
  try {
    parse_device(text, "gpu.txt");
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST_CASE("device profiles: every known device, link and model is valid and found by name in any case") {
  for (const DeviceProfile& device : known_devices()) {
    CHECK(validate(device) == "");
    CHECK(&find_device(device.name) == &device);
  }
  for (const LinkProfile& link : known_links()) {
    CHECK(validate(link) == "");
    CHECK(&find_link(link.name) == &link);
  }
  for (const ModelShape& shape : known_shapes()) {
    CHECK(validate(shape) == "");
    CHECK(&find_shape(shape.name) == &shape);
  }
  CHECK(find_device("a100-40g").name == "A100-40G");
  CHECK(find_link("100Gbps").bandwidth == 12.5e9);
}

TEST_CASE("device profiles: known entries have the figures of their data sheets, papers and config.json") {
  struct Gpu {
    const char* name;
    double f32, bf16, int8, bandwidth, memory;  // 1e12 operations per second, GB/s, GB
  };
  for (const Gpu& gpu : {Gpu{"A100-40G", 19.5, 312, 624, 1555, 40}, Gpu{"A100-80G", 19.5, 312, 624, 2039, 80},
                         Gpu{"H20", 44, 148, 296, 4000, 96}, Gpu{"H100", 67, 989, 1979, 3350, 80},
                         Gpu{"H200", 67, 989, 1979, 4800, 141}, Gpu{"4090D", 73.5, 147, 588, 1008, 24},
                         Gpu{"cpu", 0.1344, 0.1344, 0.5376, 28, 24}}) {
    CAPTURE(gpu.name);
    const DeviceProfile& device = find_device(gpu.name);
    CHECK(device.peak_ops[0] == doctest::Approx(gpu.f32 * 1e12));
    CHECK(device.peak_ops[1] == doctest::Approx(gpu.bf16 * 1e12));
    CHECK(device.peak_ops[2] == doctest::Approx(gpu.int8 * 1e12));
    CHECK(device.bandwidth == doctest::Approx(gpu.bandwidth * 1e9));
    CHECK(device.memory_bytes == doctest::Approx(gpu.memory * 1e9));
    CHECK(device.trims_last_layer == (device.name == "cpu"));
  }
  CHECK(known_devices().size() == 7);
  struct Link {
    const char* name;
    double latency_us, bandwidth, efficiency;  // GB/s
  };
  for (const Link& one :
       {Link{"pcie3", 10, 15.75, 0.8}, Link{"pcie4", 10, 31.5, 0.8}, Link{"pcie5", 10, 63, 0.8},
        Link{"10gbps", 10, 1.25, 0.9}, Link{"100gbps", 4, 12.5, 0.9}, Link{"200gbps", 3, 25, 0.9},
        Link{"400gbps", 3, 50, 0.9}}) {
    CAPTURE(one.name);
    const LinkProfile& link = find_link(one.name);
    CHECK(link.latency_us == one.latency_us);
    CHECK(link.bandwidth == doctest::Approx(one.bandwidth * 1e9));
    CHECK(link.efficiency == one.efficiency);
  }
  using Numbers = std::vector<std::uint32_t>;
  const auto numbers = [](const char* name) {
    const ModelShape& s = find_shape(name);
    CHECK(s.rows_read == 2);
    CHECK(s.weight_bytes == 2);
    CHECK(s.kv_bytes == 2);
    return Numbers{s.layers, s.hidden, s.heads, s.kv_heads, s.head_dim, s.intermediate};
  };
  CHECK(numbers("qwen2-1.5b") == Numbers{28, 1536, 12, 2, 128, 8960});
  CHECK(numbers("qwen2-7b") == Numbers{28, 3584, 28, 4, 128, 18944});
  CHECK(numbers("llama3-1b") == Numbers{16, 2048, 32, 8, 64, 8192});
  CHECK(numbers("qwen3-8b") == Numbers{36, 4096, 32, 8, 128, 12288});
  CHECK(numbers("qwen3-0.6b") == Numbers{28, 1024, 16, 8, 128, 3072});
  CHECK(numbers("qwen3-1.7b") == Numbers{28, 2048, 16, 8, 128, 6144});
  CHECK(numbers("qwen3-4b") == Numbers{36, 2560, 32, 8, 128, 9728});
  CHECK(numbers("qwen-72b") == Numbers{80, 8192, 64, 64, 128, 24576});
}

TEST_CASE("device profiles: an unknown name is refused with a list of the known names") {
  CHECK_THROWS_WITH_AS(
      find_link("ether"),
      "link is ether; expected one of pcie3, pcie4, pcie5, 10gbps, 100gbps, 200gbps, 400gbps",
      std::invalid_argument);
  CHECK_THROWS_AS(find_device(""), std::invalid_argument);
  CHECK_THROWS_AS(find_shape("qwen2"), std::invalid_argument);
}

TEST_CASE("device profiles: shapes have the KV sizes of BAT's Table 2 and the published parameter counts") {
  CHECK(find_shape("qwen2-1.5b").kv_token_bytes() == 28'672);
  CHECK(find_shape("qwen2-7b").kv_token_bytes() == 57'344);
  CHECK(find_shape("llama3-1b").kv_token_bytes() == 32'768);
  const auto billions = [](const char* name) {
    const ModelShape& shape = find_shape(name);
    return shape.layers * shape.layer_parameters() / 1e9;
  };
  // Billions of parameters without embeddings, from the model cards: 1.31, 6.53; Llama 3.2: 1.23
  // with 0.26 of embedding; Qwen3: 0.44, 1.4, 3.6, 6.95.
  CHECK(billions("qwen2-1.5b") == doctest::Approx(1.31).epsilon(0.005));
  CHECK(billions("qwen2-7b") == doctest::Approx(6.53).epsilon(0.005));
  CHECK(billions("llama3-1b") == doctest::Approx(0.973).epsilon(0.005));
  CHECK(billions("qwen3-0.6b") == doctest::Approx(0.44).epsilon(0.005));
  CHECK(billions("qwen3-1.7b") == doctest::Approx(1.41).epsilon(0.005));
  CHECK(billions("qwen3-4b") == doctest::Approx(3.63).epsilon(0.005));
  CHECK(billions("qwen3-8b") == doctest::Approx(6.95).epsilon(0.005));
}

TEST_CASE("device profiles: times_cores multiplies what cores add") {
  const DeviceProfile four = times_cores(find_device("cpu"), 4);
  CHECK(four.name == "cpu-4");
  CHECK(four.peak_ops[0] == 4 * 134.4e9);
  CHECK(four.bandwidth == 4 * find_device("cpu").bandwidth);
  CHECK(four.memory_bytes == find_device("cpu").memory_bytes);
}

TEST_CASE("device text: a written device is read back exactly") {
  const unsigned seed = 20260103;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> share(1e-6, 1);
  for (int i = 0; i < 200; ++i) {
    DeviceProfile device = known_devices()[random() % known_devices().size()];
    for (double* value : {&device.peak_ops[0], &device.bandwidth, &device.launch_us, &device.half_tokens})
      *value *= share(random);
    device.efficiency = share(random);
    device.trims_last_layer = i % 2 == 0;
    const std::string text = device_text(device);
    const DeviceProfile read = parse_device(text, "gpu.txt");
    CHECK(read.name == device.name);
    CHECK(read.peak_ops == device.peak_ops);
    CHECK(read.bandwidth == device.bandwidth);
    CHECK(read.memory_bytes == device.memory_bytes);
    CHECK(read.efficiency == device.efficiency);
    CHECK(read.launch_us == device.launch_us);
    CHECK(read.launches_per_layer == device.launches_per_layer);
    CHECK(read.half_tokens == device.half_tokens);
    CHECK(read.trims_last_layer == device.trims_last_layer);
    CHECK(device_text(read) == text);
  }
}

TEST_CASE("device text: host costs are written if there are any, and read back exactly") {
  DeviceProfile device = find_device("cpu");
  CHECK(device_text(device).find("host_") == std::string::npos);
  device.split_share = 0.6;
  device.host.idle_share = 0.01;
  device.host.wait_us = 21.5;
  for (std::size_t component = 0; component < host_components; ++component)
    device.host.costs[component] = {1.5 + double(component), 0.25, 1e-3, 0, 0.125, 7};
  const DeviceProfile read = parse_device(device_text(device), "gpu.txt");
  CHECK(read.host == device.host);
  CHECK(read.split_share == 0.6);
  const std::string text = device_text(device);
  CHECK(refusal_of(replaced(text, "host_door: 1.5 0.25", "host_door: 1.5 x")) ==
        "gpu.txt:16: host_door is \"1.5 x 0.001 0 0.125 7\"; expected four or six numbers, such as 12.5 0.3 "
        "0.1 0");
  CHECK(refusal_of(
            replaced(text, "host_door: 1.5 0.25 0.001 0 0.125 7", "host_door: 1.5 0.25 0.001 0 0.125 7 1")) ==
        "gpu.txt:16: host_door is \"1.5 0.25 0.001 0 0.125 7 1\"; expected four or six numbers, such as 12.5 "
        "0.3 0.1 0");
  CHECK(parse_device(replaced(text, "host_door: 1.5 0.25 0.001 0 0.125 7", "host_door: 1.5 0.25 0.001 0"),
                     "gpu.txt")
            .host[HostComponent::server] == HostUnits{1.5, 0.25, 1e-3, 0});
  CHECK(refusal_of(replaced(text, "host_router: 2.5", "host_router: -2.5")) ==
        "gpu.txt:17: device cpu: host work of router is -2.500000; expected 0 us or more");
  CHECK(refusal_of(replaced(text, "host_kv_cache_worker", "host_kv"))
            .starts_with("gpu.txt:19: host_kv is no key"));
}

TEST_CASE("device text: an invalid text is refused with its line") {
  const std::string good = device_text(find_device("H20"));
  CHECK(refusal_of("# by hand\n\n" + replaced(good, "\n", "\r\n")) == "");
  CHECK(refusal_of(replaced(good, "efficiency", "efficency"))
            .starts_with("gpu.txt:7: efficency is no key; expected one of name, peak_f32, "));
  CHECK(refusal_of(replaced(good, "efficiency: 0.75", "efficiency: 1.5")) ==
        "gpu.txt:7: device H20: efficiency is 1.5; expected a share above 0 and at most 1");
  CHECK(refusal_of(replaced(good, "0.75", "much")) ==
        "gpu.txt:7: efficiency is \"much\"; expected a number, such as 1.5e9");
  CHECK(refusal_of(replaced(good, "0.75", "0.75x")) != "");
  CHECK(refusal_of(replaced(good, "0.75", "nan")) != "");
  CHECK(refusal_of(replaced(good, "efficiency: 0.75", "#"))
            .starts_with("gpu.txt: efficiency is missing; expected all of name, "));
  CHECK(refusal_of(good + "name: H20\n") == "gpu.txt:12: name is there twice; expected once");
  CHECK(refusal_of(good + "hello") == "gpu.txt:12: \"hello\" has no colon; expected key: value");
  CHECK(refusal_of(replaced(good, "false", "no")) ==
        "gpu.txt:11: trims_last_layer is \"no\"; expected true or false");
  CHECK(refusal_of(replaced(good, "H20", "")) == "gpu.txt:1: name is \"\"; expected a name");
  CHECK(refusal_of("") != "");
}

TEST_CASE("device text: a text that lacks a line is refused with the missing key") {
  const std::string good = device_text(find_device("H20"));
  for (std::size_t start = 0; start < good.size(); start = good.find('\n', start) + 1) {
    std::string less = good;
    less.erase(start, good.find('\n', start) + 1 - start);
    const std::string key = good.substr(start, good.find(':', start) - start);
    CHECK(refusal_of(less).starts_with("gpu.txt: " + key + " is missing; expected all of name, "));
  }
}

TEST_CASE("device text: a device that could not be read back is not written") {
  DeviceProfile device = find_device("H20");
  for (const char* name : {"", "two\nlines", "a # b", " spaced"}) {
    device.name = name;
    CHECK_THROWS_AS(device_text(device), std::invalid_argument);
  }
  device = find_device("H20");
  device.bandwidth = -1;
  CHECK_THROWS_AS(device_text(device), std::invalid_argument);
}

}  // namespace
}  // namespace troupe::placement
