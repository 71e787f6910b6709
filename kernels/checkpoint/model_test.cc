#include "kernels/checkpoint/model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "kernels/base/float_formats.h"
#include "kernels/checkpoint/decoder_tensors.h"
#include "kernels/checkpoint/safetensors.h"
#include "kernels/testing/test_folder.h"

namespace troupe::kernels {
namespace {

DecoderConfig small(Family family) {
  DecoderConfig config;
  config.family = family;
  config.layers = 2, config.hidden = 12, config.heads = 4, config.kv_heads = 2, config.head_dim = 6;
  config.intermediate = 10, config.vocabulary = 15, config.positions_max = 64;
  config.qkv_bias = family != Family::qwen3;
  config.qk_norm = family == Family::qwen3;
  config.tied_embeddings = family == Family::qwen2;
  return config;
}

float as_stored(float value, StoredAs stored_as) {
  if (stored_as == StoredAs::f16) return from_f16(to_f16(value));
  return stored_as == StoredAs::bf16 ? from_bf16(to_bf16(value)) : value;
}

// Returns the error of a model directory after `break_it`, without the path before the file's name.
template <class Break>
std::string fault_after(Family family, std::uint32_t shards, Break break_it) {
  const TestFolder folder;
  write_decoder(random_decoder(small(family), 3), folder.path(), StoredAs::f32, shards);
  break_it(folder);
  const std::string message = load_error_of([&] { read_decoder(folder.path()); });
  return message.starts_with(folder.path().string()) ? message.substr(folder.path().string().size())
                                                     : message;
}

void replace(const TestFolder& folder, const std::string& file, const std::string& from,
             const std::string& to) {
  std::string text = folder.read(file);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  folder.write(file, text.replace(at, from.size(), to));
}

TEST_CASE("checkpoint: a model survives writing and reading, in every format and number of files") {
  for (const Family family : {Family::qwen2, Family::qwen3, Family::llama})
    for (const StoredAs stored_as : {StoredAs::f32, StoredAs::f16, StoredAs::bf16})
      for (const std::uint32_t shards : {1u, 3u}) {
        const TestFolder folder;
        const DecoderModel written = random_decoder(small(family), 3);
        write_decoder(written, folder.path(), stored_as, shards);
        const DecoderModel read = read_decoder(folder.path());
        CHECK((read.version == written.version) == (stored_as == StoredAs::f32));
        const auto found = decoder_tensors(read.config, read.weights);
        const auto expected = decoder_tensors(written.config, written.weights);
        REQUIRE(found.size() == expected.size());
        for (std::size_t t = 0; t < found.size(); ++t) {
          CAPTURE(found[t].name);
          REQUIRE(found[t].values->size() == found[t].size());
          for (std::size_t i = 0; i < found[t].values->size(); ++i)
            REQUIRE((*found[t].values)[i] == as_stored((*expected[t].values)[i], stored_as));
        }
      }
}

TEST_CASE("checkpoint: the index of several files says how many bytes all tensors have") {
  const DecoderModel model = random_decoder(small(Family::llama), 3);
  std::size_t values = 0;
  DecoderModel written = model;
  for (const auto& slot : decoder_tensors(written.config, written.weights)) values += slot.values->size();
  for (const auto& [stored_as, bytes] : {std::pair(StoredAs::f32, 4), std::pair(StoredAs::bf16, 2)}) {
    const TestFolder folder;
    write_decoder(model, folder.path(), stored_as, 3);
    const std::string size = "\"total_size\": " + std::to_string(values * static_cast<std::size_t>(bytes));
    CHECK(folder.read("model.safetensors.index.json").find(size) != std::string::npos);
  }
}

TEST_CASE("checkpoint: writing the other form replaces the files of the first") {
  const TestFolder folder;
  const DecoderModel model = random_decoder(small(Family::llama), 3);
  for (const std::uint32_t shards : {1u, 4u, 1u}) {
    write_decoder(model, folder.path(), StoredAs::f32, shards);
    CHECK(read_decoder(folder.path()).version == model.version);
  }
}

TEST_CASE(
    "checkpoint: a version is 64 hex digits and depends on the configuration, every tensor and the seed") {
  const DecoderModel model = random_decoder(small(Family::qwen2), 3);
  CHECK(model.version.size() == 64);
  CHECK(model.version.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(random_decoder(small(Family::qwen2), 3).version == model.version);
  CHECK(random_decoder(small(Family::qwen2), 4).version != model.version);
  DecoderConfig longer = model.config;
  longer.positions_max += 1;
  CHECK(decoder_version(longer, model.weights) != model.version);
  DecoderWeights weights = model.weights;
  for (const auto& tensor : decoder_tensors(model.config, weights)) {
    CAPTURE(tensor.name);
    float& value = tensor.values->back();
    const float kept = std::exchange(value, std::nextafter(value, 1e9f));
    CHECK(decoder_version(model.config, weights) != model.version);
    value = kept;
  }
}

TEST_CASE("checkpoint: tensors have Hugging Face's names and the shapes of the configuration") {
  DecoderWeights weights = empty_weights(small(Family::llama));
  const auto tensors = decoder_tensors(small(Family::llama), weights);
  CHECK(tensors.size() == 3 + 2 * (9 + 4));
  CHECK(tensors[0].name == "lm_head.weight");
  CHECK(tensors[1].name == "model.embed_tokens.weight");
  CHECK(tensors[1].shape == std::vector<std::uint64_t>{15, 12});
  const auto shape_of = [&](const std::string& name) {
    for (const auto& tensor : tensors)
      if (tensor.name == name) return tensor.shape;
    return std::vector<std::uint64_t>();
  };
  CHECK(shape_of("model.layers.1.self_attn.k_proj.weight") == std::vector<std::uint64_t>{12, 12});
  CHECK(shape_of("model.layers.1.self_attn.o_proj.weight") == std::vector<std::uint64_t>{12, 24});
  CHECK(shape_of("model.layers.1.self_attn.o_proj.bias") == std::vector<std::uint64_t>{12});
  CHECK(shape_of("model.layers.0.mlp.down_proj.weight") == std::vector<std::uint64_t>{12, 10});
  CHECK(shape_of("model.norm.weight") == std::vector<std::uint64_t>{12});
}

TEST_CASE("checkpoint: a tensor that does not match the configuration is refused by name") {
  CHECK(fault_after(Family::llama, 1,
                    [](const TestFolder& folder) {
                      replace(folder, "config.json", "\"intermediate_size\": 10",
                              "\"intermediate_size\": 11");
                    }) ==
        "/model.safetensors: tensor \"model.layers.0.mlp.down_proj.weight\" has shape [12, 10]; expected "
        "[12, 11], by config.json");
  CHECK(
      fault_after(Family::llama, 1,
                  [](const TestFolder& folder) {
                    replace(folder, "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
                  }) ==
      "/model.safetensors: tensor \"model.layers.2.input_layernorm.weight\" is missing; expected shape [12]");
  CHECK(fault_after(Family::llama, 1,
                    [](const TestFolder& folder) {
                      replace(folder, "config.json", "\"attention_bias\": true", "\"attention_bias\": false");
                    }) ==
        "/model.safetensors: unknown tensor \"model.layers.0.self_attn.k_proj.bias\"; expected only tensors "
        "that the model of config.json has");
}

// Writes a tied model's tensors, with an lm_head.weight whose value at `changed` is another one.
std::string fault_of_tied_head(std::optional<std::size_t> changed, StoredAs head_stored_as,
                               std::uint32_t columns) {
  const TestFolder folder;
  const DecoderModel model = random_decoder(small(Family::qwen2), 3);
  write_decoder(model, folder.path(), StoredAs::f32);
  std::vector<NamedTensor> tensors;
  for (const auto& slot : decoder_tensors(model.config, model.weights))
    tensors.push_back({slot.name, slot.shape, *slot.values});
  std::vector<float> head(model.weights.embedding.values.begin(),
                          model.weights.embedding.values.begin() + std::ptrdiff_t{15} * columns);
  if (changed) head[*changed] += 0.25f;
  const NamedTensor other[] = {{"lm_head.weight", {15, columns}, head}};
  write_safetensors(folder.path() / "model-00002-of-00002.safetensors", other, head_stored_as);
  write_safetensors(folder.path() / "model-00001-of-00002.safetensors", tensors, StoredAs::f32);
  std::string map = "\"lm_head.weight\": \"model-00002-of-00002.safetensors\"";
  for (const NamedTensor& tensor : tensors)
    map += ", \"" + tensor.name + "\": \"model-00001-of-00002.safetensors\"";
  folder.write("model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
  std::filesystem::remove(folder.path() / "model.safetensors");
  const std::string message = load_error_of([&] { read_decoder(folder.path()); });
  return message.substr(std::min(message.size(), message.find("tensor ")));
}

TEST_CASE("checkpoint: a head beside a tied embedding is its copy, or is refused by name") {
  const std::string expected =
      "; expected a copy of \"model.embed_tokens.weight\", as tie_word_embeddings is true in config.json; "
      "make it false to use this head";
  CHECK(fault_of_tied_head({}, StoredAs::f32, 12) == "");
  CHECK(fault_of_tied_head(0, StoredAs::f32, 12) ==
        "tensor \"lm_head.weight\" differs from the embedding in row 0" + expected);
  CHECK(fault_of_tied_head(15 * 12 - 1, StoredAs::f32, 12) ==
        "tensor \"lm_head.weight\" differs from the embedding in row 14" + expected);
  CHECK(fault_of_tied_head({}, StoredAs::bf16, 12).find("differs from the embedding") != std::string::npos);
  CHECK(fault_of_tied_head({}, StoredAs::f32, 11) ==
        "tensor \"lm_head.weight\" has shape [15, 11]" + expected);
}

TEST_CASE("checkpoint: a tied embedding that is stored under the head's name is read") {
  const TestFolder folder;
  const DecoderModel model = random_decoder(small(Family::qwen2), 3);
  write_decoder(model, folder.path(), StoredAs::f32);
  std::vector<NamedTensor> tensors;
  for (const auto& slot : decoder_tensors(model.config, model.weights))
    tensors.push_back(
        {slot.name == "model.embed_tokens.weight" ? "lm_head.weight" : slot.name, slot.shape, *slot.values});
  write_safetensors(folder.path() / "model.safetensors", tensors, StoredAs::f32);
  const DecoderModel read = read_decoder(folder.path());
  CHECK(read.weights.embedding.values == model.weights.embedding.values);
  CHECK(read.version == model.version);
}

TEST_CASE("checkpoint: a folder with weights of another kind is refused by their name and kind") {
  const auto with = [](const char* name, const std::string& bytes) {
    return fault_after(Family::llama, 1, [&](const TestFolder& folder) {
      std::filesystem::remove(folder.path() / "model.safetensors");
      folder.write(name, bytes);
    });
  };
  CHECK(with("pytorch_model.bin", "PK\x03\x04 and more") ==
        ": has no model.safetensors, but \"pytorch_model.bin\", a zip archive, as torch.save writes it (.pt, "
        ".bin); expected model.safetensors, or several files with model.safetensors.index.json, as "
        "save_pretrained of transformers writes them");
  CHECK(with("model-q4.gguf", "GGUF").find("a GGUF file of llama.cpp") != std::string::npos);
  CHECK(with("adapter_model.safetensors", "x").find("\"adapter_model.safetensors\";") != std::string::npos);
  CHECK(with("notes.txt", "x").find("open failed") != std::string::npos);
}

TEST_CASE("checkpoint: rotary buffers and a tied model's copied head are ignored, and no other tensor is") {
  const auto renamed = [](const char* name, bool tied) {
    return fault_after(Family::llama, 1, [&](const TestFolder& folder) {
      if (tied)
        replace(folder, "config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
      replace(folder, "model.safetensors", "lm_head.weight", name);
    });
  };
  CHECK(renamed("lm_head.weight", true).find("differs from the embedding in row 0") != std::string::npos);
  CHECK(renamed("lm_head.weighs", true).find("unknown tensor") != std::string::npos);
  CHECK(renamed("lm_head.weighs", false).find("\"lm_head.weight\" is missing") != std::string::npos);
}

TEST_CASE("checkpoint: an embedding model's tensors, which have no prefix, make the same model") {
  const TestFolder folder;
  const DecoderModel written = random_decoder(small(Family::qwen2), 3);
  write_decoder(written, folder.path(), StoredAs::f32, 1);
  std::string text = folder.read("model.safetensors");
  constexpr std::string_view prefixed = "\"model.", bare = "      \"";  // of the same length
  for (std::size_t at = text.find(prefixed); at != std::string::npos; at = text.find(prefixed, at))
    text.replace(at, prefixed.size(), bare);
  folder.write("model.safetensors", text);
  CHECK(read_decoder(folder.path()).version == written.version);
  folder.write("model.safetensors", text.replace(text.find("\"norm.weight"), 12, "\"norm.weighs"));
  CHECK(load_error_of([&] { read_decoder(folder.path()); }).find("tensor \"norm.weight\" is missing") !=
        std::string::npos);
}

TEST_CASE("checkpoint: an index that does not match its files is refused") {
  const std::string index = "model.safetensors.index.json", second = "model-00002-of-00003.safetensors";
  CHECK(fault_after(Family::qwen3, 3, [](const TestFolder&) {}) == "");
  CHECK(
      fault_after(Family::qwen3, 3, [&](const TestFolder& folder) {
        replace(folder, index, second, "../" + second);
      }).find("is \"../model-00002-of-00003.safetensors\"; expected a plain file name") != std::string::npos);
  CHECK(fault_after(Family::qwen3, 3, [&](const TestFolder& folder) {
          replace(folder, index, second, "model-00001-of-00003.safetensors");
        }).find("expected only tensors that the index places here") != std::string::npos);
  CHECK(fault_after(Family::qwen3, 3, [&](const TestFolder& folder) {
          std::filesystem::remove(folder.path() / second);
        }).find("open failed") != std::string::npos);
  CHECK(fault_after(Family::qwen3, 3,
                    [&](const TestFolder& folder) {
                      replace(folder, index, "\"model.norm.weight\"", "\"model.norm.weighs\"");
                    })
            .find("holds tensor \"model.norm.weight\"; expected only tensors that the index places") !=
        std::string::npos);
  CHECK(fault_after(Family::qwen3, 3,
                    [&](const TestFolder& folder) {
                      replace(folder, index, "\"weight_map\": {",
                              "\"weight_map\": {\"x\": \"" + second + "\",");
                    })
            .find("places tensor \"x\" in \"" + second + "\"; expected a file that holds it") !=
        std::string::npos);
  CHECK(fault_after(Family::qwen3, 3, [&](const TestFolder& folder) {
          folder.write("model.safetensors", "");
        }).find("has both") != std::string::npos);
}

TEST_CASE("checkpoint: random weights have the deviation that keeps activations near 1") {
  DecoderConfig config = small(Family::llama);
  config.hidden = 96, config.vocabulary = 400;
  const DecoderModel model = random_decoder(config, 9);
  const auto deviation = [](const std::vector<float>& values) {
    double squares = 0;
    for (const float value : values) squares += double(value) * value;
    return std::sqrt(squares / double(values.size()));
  };
  CHECK(deviation(model.weights.embedding.values) == doctest::Approx(1).epsilon(0.02));
  CHECK(deviation(model.weights.output.values) == doctest::Approx(1 / std::sqrt(96.0)).epsilon(0.02));
  CHECK(deviation(model.weights.layers[0].o.values) == doctest::Approx(0.5 / std::sqrt(24.0)).epsilon(0.05));
}

}  // namespace

TEST_CASE("checkpoint: a full disk fails the write with an error that names the file") {
  for (const std::uint32_t shards : {1u, 2u}) {
    for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json",
                             "model-00002-of-00002.safetensors"}) {
      if ((std::string(name) == "model.safetensors") != (shards == 1) && std::string(name) != "config.json")
        continue;
      CAPTURE(name);
      const TestFolder folder;
      std::filesystem::create_symlink("/dev/full", folder.path() / name);
      const std::string said = load_error_of([&] {
        write_decoder(random_decoder(small(Family::qwen2), 3), folder.path(), StoredAs::f32, shards);
      });
      CHECK(said.find(name) != std::string::npos);
    }
  }
}
}  // namespace troupe::kernels
