#pragma once
// A fuzz target: one parser, from bytes in memory to a value, with the properties that the value must
// have for any bytes. A failed check stops the process, like a crash of the parser. The same targets run
// under libFuzzer (libfuzzer.cc, one program each) and in every build over their corpora (replay.cc, all
// in one program).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/check.h"

namespace troupe::fuzz {

using Input = std::span<const std::uint8_t>;

struct Target {
  std::string_view name;  // also the name of its corpus
  void (*run)(Input input);
  std::vector<std::string> (*seeds)();  // well-formed inputs, the start of a corpus
  bool from_network = false;            // true if strangers or peers can send these bytes
};

std::span<const Target> all_targets();
const Target* find_target(std::string_view name);

// Each is defined in a file *_target.cc.
extern const Target http_target, http2_target, grpc_target, json_target, completions_target, codec_target,
    frames_target, pull_target, redis_target, etcd_target;
extern const Target records_target, logs_target, config_target, cluster_target, weights_target, model_target,
    traces_target, texts_target, sentences_target, scores_target, keys_target, torch_target, tables_target;

inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}
inline Input bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Removes the first byte, which chooses how the rest is interpreted; 0 if there is none.
inline std::uint8_t take_choice(Input& input) {
  if (input.empty()) return 0;
  const std::uint8_t choice = input.front();
  input = input.subspan(1);
  return choice;
}

// Checks an error text: not empty, of bounded length, without control characters of a terminal or a log.
void check_words(std::string_view text, std::size_t bytes_max);

// Measures the memory that operator new gave to this thread since the watch began and that is not freed.
class MemoryWatch {
 public:
  MemoryWatch();
  std::size_t most() const;  // maximum since the watch began
  std::size_t left() const;  // now
 private:
  std::size_t before_;
};

}  // namespace troupe::fuzz
