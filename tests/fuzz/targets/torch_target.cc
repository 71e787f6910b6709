// Parses files of torch.save, the pickles in them, and gin files, as `troupe convert` reads them. Checksums
// of an archive cannot be guessed, so on request the input is the pickle of a whole archive.
#include <algorithm>

#include "deploy/convert/gin_file.h"
#include "deploy/convert/state_dict.h"
#include "deploy/testing/torch_archive_test.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

using namespace deploy;

constexpr std::string_view storage = "sixteen bytes at";

void check_error(const kernels::LoadError& error, std::string_view file) {
  const std::string_view words = error.what();
  TROUPE_CHECK(words.starts_with(file) && words.find("; expected ") != words.npos, "no place");
  check_words(words, 2'048);
}

void check_tensors(const TorchBytes& file, std::size_t bytes) {
  for (const PickleValue& value : file.pickle().values()) {
    const auto* tensor = std::get_if<PickleTensor>(&value);
    if (tensor == nullptr) continue;
    try {
      TROUPE_CHECK(file.values(*tensor, "t").size() <= bytes, "more values than bytes");
    } catch (const kernels::LoadError& error) {
      check_error(error, "x.pt: ");
    }
  }
  StateDict state(file);
  for (const std::string& name : state.names()) state.drop(name);
  for (const std::string& name : state.objects()) state.drop(name);
  TROUPE_CHECK(state.left().empty(), "a tensor is left that was dropped");
}

void run_file(const std::string& bytes) {
  const MemoryWatch memory;
  try {
    check_tensors(TorchBytes("x.pt", std::as_bytes(std::span(bytes))), bytes.size());
  } catch (const kernels::LoadError& error) {
    check_error(error, "x.pt: ");
  }
  TROUPE_CHECK(memory.most() <= 512 * bytes.size() + (64 << 10), "a file takes more than it brings");
}

void run_gin(std::string_view text) {
  try {
    const GinFile file("x.gin", text);
    for (const auto& [name, binding] : file.bindings())
      TROUPE_CHECK(!name.empty() && binding.line > 0, "a binding without a name or a line");
  } catch (const kernels::LoadError& error) {
    check_error(error, "x.gin");
  }
}

void run(Input input) {
  const std::uint8_t choice = take_choice(input) & 3;
  const std::string text(text_of(input));
  if (choice == 0) return run_gin(text);
  if (choice == 1) return run_file(text);
  run_file(ZipFile{{{"a/data.pkl", text}, {"a/data/0", std::string(storage)}}}.bytes());
}

std::vector<std::string> seeds() {
  const std::vector<TestTensor> tensors{float_tensor("module.a", {2, 2}, {1, 2, 3, 4}),
                                        {"module.b", {2}, half_bytes({1, 2}, true), "BFloat16Storage"},
                                        {"module.c", {1}, std::string(8, '\1'), "LongStorage"}};
  TestTensor view{"module.d", {2, 2}, "", "FloatStorage", {1, 2}};
  view.key = "0";
  view.elements = 4;
  ZipFile wide = torch_parts(tensors);
  wide.wide_end = true;
  wide.parts.back().wide = true;
  const std::string shard = pickled_name("torch.distributed._shard.sharded_tensor.api", "ShardedTensor");
  return {"0train_fn.a = 1e-3  # c\nsize = 5\nb.c = [%size, 'x', @d/E(), None]\n",
          "1" + torch_archive(tensors),
          "1" + wide.bytes(),
          "1" + older_torch_file({tensors[0], tensors[1], view}),
          "2" + pickled_state({tensors[0], view}),
          "2" + pickle_begin + "}" + pickled("a") + pickled_name("torch._tensor", "_rebuild_from_type_v2") +
              "(" + pickled_name("torch._utils", "_rebuild_wrapper_subclass") + shard + "(" + shard +
              "tNtRs.",
          "2" + pickle_begin + pickled_name("posix", "system") + "(" + pickled("true") + "tR."};
}

}  // namespace

const Target torch_target{"torch", run, seeds};

}  // namespace troupe::fuzz
