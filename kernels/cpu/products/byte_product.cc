// Chooses what multiplies bytes on this CPU.
#include "kernels/cpu/products/byte_product.h"

#include <vector>

#include "kernels/cpu/products/byte_product_versions.h"
#include "kernels/operations/elementwise.h"
#include "kernels/operations/versions.h"

namespace troupe::kernels {

void run_values_in_passes(const ByteProduct& product, const ByteRows& rows, const ColumnScales& scales,
                          std::size_t columns) {
  thread_local std::vector<float> sums;
  if (rows.add && sums.size() < rows.rows * columns) sums.resize(rows.rows * columns);
  float* const values = rows.add ? sums.data() : rows.out;
  product.run(rows.in, values, rows.rows);
  quantize().dequantize_rows(values, columns, rows.scales, scales, rows.rows, columns);
  if (rows.add) elementwise().add_rows(values, columns, rows.out, columns, rows.rows, columns);
}

namespace {

// The default where oneDNN is built in; false makes our own versions the default. On an EPYC with
// AVX512_VNNI, in whole passes of the shapes tiny, small and qwen05, ours took 0.7 to 0.9 times oneDNN's CPU
// time with up to 16 tokens, the same with 64, and up to 1.06 times with 256 and 1000, which most requests
// compute. On CPUs with AMX, oneDNN uses it, and ours do not.
[[maybe_unused]] constexpr bool onednn_first = true;

std::vector<ByteProductVersion> make_byte_product_versions() {
  const std::span<const ByteProductVersion> panels = panel_byte_products();
  std::vector<ByteProductVersion> versions(panels.begin(), panels.end());
#ifdef TROUPE_WITH_ONEDNN
  versions.insert(onednn_first ? versions.begin() : versions.end(), onednn_byte_product());
#endif
  versions.push_back(plain_byte_product());
  return versions;
}

}  // namespace

std::span<const ByteProductVersion> byte_product_versions() {
  static const std::vector<ByteProductVersion> versions = make_byte_product_versions();
  return versions;
}

const ByteProductVersion& byte_product_version() {
  static const ByteProductVersion& chosen = first_usable(byte_product_versions());
  return chosen;
}

}  // namespace troupe::kernels
