// `troupe-lab bench make-model`: writes a model directory of a benchmark's shape with random weights.
// It has config.json, safetensors, and a vocabulary with the names that catalogs and prompt forms
// use, so that every command accepts it.
#include <array>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>

#include "deploy/data/text_file.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/node/prompt_file.h"
#include "kernels/climber/climber.h"

namespace troupe::deploy {

namespace {

struct MakeModelOptions {
  std::string shape, out, family = "qwen2", stored_as = "f32";
  std::uint32_t shards = 1, vocabulary = 0, codes = 256;
  std::uint64_t seed = 7;
};

const std::map<std::string, kernels::Family> families{
    {"qwen2", kernels::Family::qwen2}, {"qwen3", kernels::Family::qwen3}, {"llama", kernels::Family::llama}};
const std::map<std::string, kernels::StoredAs> formats{
    {"f32", kernels::StoredAs::f32}, {"f16", kernels::StoredAs::f16}, {"bf16", kernels::StoredAs::bf16}};

// Names of the default prompt form, then the tokens of semantic IDs: four levels of `codes`, or three if four
// do not fit, then identifiers for the remaining tokens.
std::string vocabulary_text(std::uint32_t tokens, std::uint32_t codes) {
  std::vector<std::string> names{"<pad>", "<bos>", "<eos>", "<unk>", "<user>", "<disc>", "<yes>"};
  for (int i = 1; i <= 3; ++i) names.push_back("<instr_" + std::to_string(i) + ">");
  for (int i = 1; i <= 7; ++i) names.push_back("<sys_" + std::to_string(i) + ">");
  constexpr std::array levels{"<a_", "<b_", "<c_", "<d_"};
  const std::uint64_t left = tokens < names.size() ? 0 : tokens - names.size();
  if (left < std::uint64_t{3} * codes)
    throw std::invalid_argument("--vocabulary is " + std::to_string(tokens) + "; expected at least " +
                                std::to_string(names.size() + 3 * std::size_t{codes}) + ", three levels of " +
                                std::to_string(codes) + " (--codes) and the names of the prompt form");
  for (const char* level : std::span(levels).first(left < std::uint64_t{4} * codes ? 3 : 4))
    for (std::uint32_t i = 0; i < codes; ++i) names.push_back(level + std::to_string(i) + ">");
  for (std::size_t i = 0; names.size() < tokens; ++i) names.push_back("<item_" + std::to_string(i) + ">");
  nlohmann::json vocabulary;
  for (std::size_t id = 0; id < names.size(); ++id) vocabulary[names[id]] = id;
  return vocabulary.dump(1) + "\n";
}

// FLAME's two scenarios: histories of 512 and 1,024 events.
const std::map<std::string, std::uint32_t> climber_histories{{"flame-base", 512}, {"flame-long", 1024}};

int make_climber_model(const MakeModelOptions& options) {
  if (options.stored_as != "f32" || options.shards != 1)
    throw std::invalid_argument("--shape " + options.shape +
                                " is stored in one file of f32; expected no other format");
  write_climber(
      kernels::random_climber(kernels::flame_climber(climber_histories.at(options.shape)), options.seed),
      options.out);
  const kernels::ClimberConfig config = kernels::read_climber_config(options.out);
  std::cout << options.out << ": climber, " << config.towers.size() << " towers of " << config.layers
            << " layers of " << config.hidden << ", " << config.towers[0].positions
            << " events each. Try:\n  troupe logits --model " << options.out << " --request FILE.json\n";
  return 0;
}

// The form of a model that no training binds to an arrangement.
constexpr std::string_view prompt_text = R"({
  "system": ["<bos>", "<sys_1>", "<sys_2>", "<sys_3>", "<sys_4>", "<sys_5>", "<sys_6>", "<sys_7>"],
  "user": ["<user>"], "instruction": ["<instr_1>", "<instr_2>", "<instr_3>"], "discriminant": ["<disc>"],
  "arrangements": ["item_first", "user_first", "causal"], "interchangeable": ["item_first", "user_first"]
}
)";

int run_make_model(const MakeModelOptions& options) {
  const std::filesystem::path folder = options.out;
  if (std::filesystem::exists(folder) && !std::filesystem::is_empty(folder))
    throw std::runtime_error("--out " + options.out + " is not empty; expected a new or empty folder");
  if (climber_histories.contains(options.shape)) return make_climber_model(options);
  kernels::DecoderConfig config = shape_config(find_shape(options.shape), families.at(options.family));
  if (options.vocabulary > 0) config.vocabulary = options.vocabulary;
  const std::string vocabulary = vocabulary_text(config.vocabulary, options.codes);
  std::filesystem::create_directories(folder);
  write_decoder(kernels::random_decoder(config, options.seed), folder, formats.at(options.stored_as),
                options.shards);
  write_output((folder / "vocab.json").string(), vocabulary);
  write_output((folder / "prompt.json").string(), std::string(prompt_text));
  const kernels::PlanLimits limits = plan_limits(kernels::read_decoder_config(folder));
  // checks that it can be served
  read_prompt_form(folder, std::nullopt, limits, read_vocabulary_if_any(folder, limits));
  std::cout << options.out << ": " << options.family << ", " << config.layers << " layers of "
            << config.hidden << ", vocabulary " << config.vocabulary << ", stored as " << options.stored_as
            << ". Try:\n  troupe logits --model " << options.out
            << " --tokens 1,2,3\n  troupe-lab bench rank --model " << options.out
            << " --data deploy/demo/world\n";
  return 0;
}

}  // namespace

void add_make_model(Command bench) {
  auto options = std::make_shared<MakeModelOptions>();
  Command command =
      bench.add_command("make-model", "Write a model directory of a benchmark's shape with random weights");
  command
      .add_option("--shape", options->shape,
                  "Shape: tiny, small or qwen05; or flame-base or flame-long of the Climber family")
      .required()
      .one_of({"tiny", "small", "qwen05", "flame-base", "flame-long"});
  command.add_option("--out", options->out, "Model folder to write; must be new or empty").required();
  command.add_option("--family", options->family, "Model architecture: qwen2, qwen3 or llama")
      .one_of({"qwen2", "qwen3", "llama"})
      .default_shown();
  command
      .add_option("--stored-as", options->stored_as, "Number format of the stored weights: f32, f16 or bf16")
      .one_of({"f32", "f16", "bf16"})
      .default_shown();
  command.add_option("--vocabulary", options->vocabulary, "Tokens of a decoder; 0: the shape's 32768")
      .between(0, 1'000'000)
      .default_shown();
  command.add_option("--codes", options->codes, "Tokens of each level of a decoder's semantic IDs")
      .between(1, 250'000)
      .default_shown();
  command.add_option("--shards", options->shards, "Number of weight files").between(1, 1000).default_shown();
  command.add_option("--seed", options->seed, "Seed of the random weights").default_shown();
  command.runs([options] { return run_make_model(*options); });
}

}  // namespace troupe::deploy
