// Runs all targets without libFuzzer, in every build and with any compiler:
//
//   fuzz_replay CORPUS [MUTATIONS [SEED]]   each target's seeds and corpus/<target>/*, then mutations of them
//   fuzz_replay --one TARGET FILE...        findings of a fuzzer
//   fuzz_replay --seeds FOLDER              writes each target's seeds to FOLDER/<target>/
//
// A failed check stops the process; its input is then in fuzz_replay.input.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/fuzz/damage.h"
#include "tests/fuzz/targets/target.h"

using namespace troupe::fuzz;

namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path.string() + ": cannot be read; expected an input");
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A copy of exactly the input's size, so that a sanitizer notices a read beyond its end. The handler of
// an abort writes it.
std::string current;
void run(const Target& target, const std::string& bytes) {
  current = bytes;
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
  target.run(input);
}

// Returns the seeds, then the corpus in the order of its file names.
std::vector<std::string> inputs_of(const Target& target, const fs::path& corpus) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(corpus / target.name)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::string> inputs = target.seeds();
  for (const fs::path& file : files) inputs.push_back(read_file(file));
  return inputs;
}

std::string mutated(const std::vector<std::string>& inputs, Chance& chance) {
  std::string bytes = pick(chance, inputs);
  for (std::size_t times = draw(chance, 4) + 1; times > 0; --times) {
    if (draw(chance, 8) == 0) bytes += pick(chance, inputs).substr(0, 256);
    draw(chance, 3) == 0 ? damage_text(bytes, chance) : damage_bytes(bytes, chance);
  }
  return bytes;
}

void replay(const Target& target, const fs::path& corpus, std::uint64_t mutations, std::uint64_t seed) {
  const std::vector<std::string> inputs = inputs_of(target, corpus);
  std::printf("%-8s %4zu inputs, %llu mutations from seed %llu\n", std::string(target.name).c_str(),
              inputs.size(), static_cast<unsigned long long>(mutations),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  for (const std::string& input : inputs) run(target, input);
  Chance chance(seed);
  for (std::uint64_t i = 0; i < mutations; ++i) run(target, mutated(inputs, chance));
}

void write_seeds(const fs::path& folder) {
  for (const Target& target : all_targets()) {
    fs::create_directories(folder / target.name);
    std::size_t number = 0;
    for (const std::string& seed : target.seeds())
      write_file(folder / target.name / ("seed-" + std::to_string(number++)), seed);
  }
}

void replay_files(const std::string& name, const std::vector<std::string>& files) {
  const Target* target = find_target(name);
  if (!target)
    throw std::runtime_error(name + ": no such target; expected the name of a folder of tests/fuzz/corpus");
  for (const std::string& file : files) run(*target, read_file(file));
}

void keep_input() {
  write_file("fuzz_replay.input", current);
  std::fputs("the input at which it ended lies in fuzz_replay.input\n", stderr);
}

void end_by_signal(int) {
  keep_input();
  std::_Exit(1);
}

int usage() {
  std::fputs("fuzz_replay CORPUS [MUTATIONS [SEED]] | --one TARGET FILE... | --seeds FOLDER\n", stderr);
  return 2;
}

}  // namespace

int main(int count, char** words) try {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.empty()) return usage();
  std::signal(SIGABRT, end_by_signal);  // SIGSEGV is left to sanitizers; the same seed repeats it
  if (arguments[0] == "--seeds" && arguments.size() == 2) return write_seeds(arguments[1]), 0;
  if (arguments[0] == "--one" && arguments.size() > 2)
    return replay_files(arguments[1], {arguments.begin() + 2, arguments.end()}), 0;
  const std::uint64_t mutations = arguments.size() > 1 ? std::stoull(arguments[1]) : 0;
  const std::uint64_t seed = arguments.size() > 2 ? std::stoull(arguments[2]) : 1;
  for (const Target& target : all_targets()) replay(target, arguments[0], mutations, seed);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  if (!current.empty()) keep_input();
  return 1;
}
