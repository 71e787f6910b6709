// Loads model directories that are damaged at random: whatever the files contain, loading ends in a
// LoadError or in a model. Run with -DTROUPE_SANITIZE=address,undefined it also shows that nothing
// is read out of bounds.
#include <doctest/doctest.h>

#include <cctype>
#include <cstring>
#include <map>
#include <random>

#include "kernels/checkpoint/model.h"
#include "kernels/checkpoint/vocabulary.h"
#include "kernels/testing/test_folder.h"

namespace troupe::kernels {
namespace {

using Chance = std::mt19937_64;
using Files = std::map<std::string, std::string>;  // name → bytes

std::size_t draw(Chance& chance, std::size_t below) {
  return std::uniform_int_distribution<std::size_t>(0, below - 1)(chance);
}

template <class Value, std::size_t count>
const Value& pick(Chance& chance, const Value (&values)[count]) {
  return values[draw(chance, count)];
}

// A sound checkpoint: Qwen2 in one float32 file, or Qwen3 in three bfloat16 files.
Files sound_files(bool sharded) {
  DecoderConfig config;
  config.family = sharded ? Family::qwen3 : Family::qwen2;
  config.layers = 2, config.hidden = 8, config.heads = 2, config.kv_heads = 1, config.head_dim = 4;
  config.intermediate = 6, config.vocabulary = 5, config.positions_max = 32;
  config.qkv_bias = !sharded, config.qk_norm = sharded, config.tied_embeddings = !sharded;
  config.rope_scaling.kind = sharded ? RopeScaling::Kind::llama3 : RopeScaling::Kind::none;
  const TestFolder folder;
  write_decoder(random_decoder(config, 1), folder.path(), sharded ? StoredAs::bf16 : StoredAs::f32,
                sharded ? 3 : 1);
  folder.write("vocab.json", R"({"<pad>": 0, "<bos>": 1, "a": 2, "b": 4})");
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    files[name] = folder.read(name);
  }
  return files;
}

// Damages bits, bytes, runs and ends of a file, without regard to their meaning.
void damage_bytes(std::string& bytes, Chance& chance) {
  if (bytes.empty()) return;
  const std::size_t at = draw(chance, bytes.size()), length = draw(chance, bytes.size() - at) + 1;
  switch (draw(chance, 6)) {
    case 0:
      for (std::size_t flips = draw(chance, 8) + 1; flips > 0; --flips)
        bytes[draw(chance, bytes.size())] ^= static_cast<char>(1 << draw(chance, 8));
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.append(draw(chance, 100) + 1, static_cast<char>(draw(chance, 256)));
      break;
    case 3:
      bytes.erase(at, length);
      break;
    case 4:
      bytes.insert(at, bytes.substr(at, std::min<std::size_t>(length, 1000)));
      break;
    default:
      bytes[at] = static_cast<char>(draw(chance, 256));
      break;
  }
}

// Replaces a number, a string or a bracket of a JSON text by a wrong value.
void damage_json(std::string& text, Chance& chance) {
  static const std::string lies[] = {"0",
                                     "-1",
                                     "1",
                                     "2",
                                     "7",
                                     "1.5",
                                     "1e308",
                                     "1e999",
                                     "4294967296",
                                     "9223372036854775808",
                                     "18446744073709551615",
                                     "18446744073709551616",
                                     "null",
                                     "true",
                                     "\"\"",
                                     "\"F16\"",
                                     "\"BF16\"",
                                     "\"F64\"",
                                     "\"../x\"",
                                     "\"\\ud800\"",
                                     "[]",
                                     "{}",
                                     "[[]]",
                                     "{\"a\":{\"a\":1}}",
                                     "NaN",
                                     ",",
                                     "",
                                     "\xff",
                                     std::string(50000, '['),
                                     std::string(50000, '{')};
  if (text.empty()) return;
  const std::size_t from = draw(chance, text.size());
  const bool of_number = draw(chance, 2) == 0;
  const auto begin = of_number ? text.find_first_of("0123456789", from) : text.find('"', from);
  if (begin == std::string::npos) return damage_bytes(text, chance);
  const auto end = of_number ? text.find_first_not_of("0123456789.e-", begin) : text.find('"', begin + 1) + 1;
  if (end == std::string::npos || end <= begin) return damage_bytes(text, chance);
  text.replace(begin, end - begin, pick(chance, lies));
}

// Damages the header of a safetensors file; its length field fits the damaged header or does not.
void damage_safetensors(std::string& bytes, Chance& chance) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  // an earlier damage left no valid header
  if (length > bytes.size() - 8) return damage_bytes(bytes, chance);
  if (draw(chance, 4) == 0) {
    const std::uint64_t lies[] = {0,
                                  1,
                                  length - 1,
                                  length + 1,
                                  bytes.size() - 8,
                                  bytes.size() - 7,
                                  100'000'001,
                                  ~0ull,
                                  ~0ull - 7,
                                  std::uint64_t{1} << 63};
    length = pick(chance, lies);
    std::memcpy(bytes.data(), &length, sizeof(length));
    return;
  }
  std::string header = bytes.substr(8, length);
  damage_json(header, chance);
  const std::uint64_t fitting = header.size();
  bytes = std::string(reinterpret_cast<const char*>(&fitting), 8) + header + bytes.substr(8 + length);
}

void damage(Files& files, Chance& chance) {
  auto& [name, bytes] = *std::next(files.begin(), static_cast<std::ptrdiff_t>(draw(chance, files.size())));
  if (draw(chance, 3) == 0)
    damage_bytes(bytes, chance);
  else if (name.ends_with(".safetensors") && bytes.size() > 8)
    damage_safetensors(bytes, chance);
  else
    damage_json(bytes, chance);
}

bool loads(const Files& files) {
  const TestFolder folder;
  for (const auto& [name, bytes] : files) folder.write(name, bytes);
  const std::string message = load_error_of([&] {
    const DecoderModel model = read_decoder(folder.path());
    read_vocabulary(folder.path(), model.config.vocabulary);
  });
  if (!message.empty()) CHECK(message.find("; expected ") != std::string::npos);
  return message.empty();
}

TEST_CASE("checkpoint: a damaged model directory ends in a LoadError or in a model") {
  constexpr std::uint64_t kSeeds = 1000;
  const Files sound[] = {sound_files(false), sound_files(true)};
  CHECK(loads(sound[0]));
  CHECK(loads(sound[1]));
  std::size_t refused = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Chance chance(seed);
    Files files = pick(chance, sound);
    for (std::size_t times = draw(chance, 2) + 1; times > 0; --times) damage(files, chance);
    refused += !loads(files);
  }
  // Most damage is detected; a flipped bit of a weight gives a valid weight.
  CHECK(refused > kSeeds / 2);
  CHECK(refused < kSeeds);
}

}  // namespace
}  // namespace troupe::kernels
