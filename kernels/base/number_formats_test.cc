#include "kernels/base/number_formats.h"

#include <doctest/doctest.h>

namespace troupe::kernels {
namespace {

TEST_CASE("number formats: each format is found by its name, and an unknown name finds none") {
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16})
    CHECK(find_kv_format(format_name(format)) == format);
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::int8, WeightFormat::bf16})
    CHECK(find_weight_format(format_name(format)) == format);
  CHECK_FALSE(find_kv_format("int8"));
  CHECK_FALSE(find_weight_format(""));
}

}  // namespace
}  // namespace troupe::kernels
