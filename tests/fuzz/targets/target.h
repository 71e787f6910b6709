#pragma once
// A fuzz target: one parser, from bytes in memory to a value, with what has to hold of that value whatever
// the bytes are. A check that fails stops the process, as a crash of the parser would. The same targets run
// under libFuzzer (libfuzzer.cc, one program each) and in every build over their corpora (replay.cc, all in
// one).
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
  std::string_view name;  // of its corpus, too
  void (*run)(Input input);
  std::vector<std::string> (*seeds)();  // well-formed inputs, from which a corpus begins
  bool from_network = false;            // a stranger or a peer may send these bytes
};

std::span<const Target> all_targets();
const Target* find_target(std::string_view name);

// One for each file *_target.cc.
extern const Target door_target, json_target, completions_target, codec_target, frames_target, pull_target,
    redis_target, etcd_target;
extern const Target records_target, logs_target, config_target, cluster_target, weights_target, model_target,
    traces_target, texts_target, scores_target, keys_target;

inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}
inline Input bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// The first byte chooses what the rest is taken for; 0 if there is none.
inline std::uint8_t take_choice(Input& input) {
  if (input.empty()) return 0;
  const std::uint8_t choice = input.front();
  input = input.subspan(1);
  return choice;
}

// What an error says: something, not without end, and nothing that a terminal or a log would take for a
// command.
void check_words(std::string_view text, std::size_t bytes_max);

// What operator new has given to this thread since the watch began, and is not freed.
class MemoryWatch {
 public:
  MemoryWatch();
  std::size_t most() const;  // at any time since it began
  std::size_t left() const;  // now
 private:
  std::size_t before_;
};

}  // namespace troupe::fuzz
