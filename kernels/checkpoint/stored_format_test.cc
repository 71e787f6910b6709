#include "kernels/checkpoint/stored_format.h"

#include <doctest/doctest.h>

#include <vector>

#include "kernels/checkpoint/model.h"
#include "kernels/checkpoint/safetensors.h"
#include "kernels/testing/test_folder.h"

namespace troupe::kernels {
namespace {

void write_one(const TestFolder& folder, const char* file, std::vector<std::uint64_t> shape, StoredAs as) {
  const std::vector<float> values(6, 0.5f);
  const NamedTensor tensor{"weight", std::move(shape), values};
  write_safetensors(folder.path() / file, {&tensor, 1}, as);
}

TEST_CASE("stored format: bf16 if all matrices of all files are, whatever the vectors are") {
  const TestFolder folder;
  CHECK_FALSE(has_bf16_matrices(folder.path()));
  CHECK_FALSE(has_bf16_matrices(folder.path() / "missing"));
  write_one(folder, "a.safetensors", {6}, StoredAs::f32);
  CHECK_FALSE(has_bf16_matrices(folder.path()));
  write_one(folder, "b.safetensors", {2, 3}, StoredAs::bf16);
  CHECK(has_bf16_matrices(folder.path()));
  for (const StoredAs other : {StoredAs::f16, StoredAs::f32}) {
    write_one(folder, "c.safetensors", {3, 2}, other);
    CHECK_FALSE(has_bf16_matrices(folder.path()));
  }
  write_one(folder, "c.safetensors", {3, 2}, StoredAs::bf16);
  CHECK(has_bf16_matrices(folder.path()));
}

TEST_CASE("stored format: a file with a faulty header is named") {
  const TestFolder folder;
  folder.write("model.safetensors", "x");
  CHECK(load_error_of([&] { has_bf16_matrices(folder.path()); }).find("model.safetensors") !=
        std::string::npos);
}

}  // namespace
}  // namespace troupe::kernels
