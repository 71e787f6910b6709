// Emulates products of warpgroups: what wgmma.mma_async.m64nNk16 reads and writes, and when.
// Layouts are those of the PTX ISA: "Register fragments" and "Shared memory matrix layout" of the
// asynchronous warpgroup instructions.
#include <cstring>
#include <string>

#include "kernels/cuda/simt/emulator_machine.h"

namespace troupe::kernels::cuda::emulator {
namespace {

constexpr unsigned rows = 64, depth = 16;
// A NaN that arithmetic would change: its quiet bit is off.
constexpr std::uint32_t sums_poison = 0x7fa5a5a5;

// A matrix in shared memory with rows of 128 bytes. Eight rows form a pattern, in which the 16-byte
// chunks of row r are permuted: chunk c is stored at index c ^ r.
struct Matrix {
  std::uint32_t start, leading, stride;
};

Matrix decode(std::uint64_t bits) {
  Machine& m = machine();
  const auto bytes = [&](unsigned shift) { return static_cast<std::uint32_t>(bits >> shift & 0x3fff) << 4; };
  const Matrix matrix{bytes(0), bytes(16), bytes(32)};
  const unsigned thread = m.place().thread;
  if (bits >> 62 != 1) m.fault<KernelFault>("a matrix that is not swizzled by 128 bytes", thread);
  if ((bits >> 49 & 7) != 0 || matrix.start % 1024 >= 128 || matrix.stride % 1024 != 0 ||
      matrix.leading % 1024 != 0)
    m.fault<AlignmentFault>("a matrix that does not begin in the first row of its patterns of 1024 bytes",
                            thread);
  return matrix;
}

std::uint32_t swizzled(std::uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

// Returns the address of the eight numbers of B whose first is row k, column n.
std::uint32_t address_of(const Matrix& b, const ProductForm& form, unsigned k, unsigned n) {
  if (form.rows_of_depth)
    return swizzled(b.start + n / 64 * b.leading + n % 64 * 2 + k / 8 * b.stride + k % 8 * 128);
  return swizzled(b.start + n / 8 * b.stride + n % 8 * 128 + k * 2);
}

// Reads B from shared memory; reports a fault if a thread's writes were not made visible to the
// asynchronous proxy.
std::vector<std::uint16_t> read_b(std::uint64_t at, const ProductForm& form) {
  Machine& m = machine();
  const Matrix matrix = decode(at);
  std::vector<std::uint16_t> b(depth * form.columns);
  const auto read = [&](unsigned k, unsigned n, std::uint16_t(&eight)[8]) {
    const std::uint32_t address = address_of(matrix, form, k, n);
    std::memcpy(eight, m.shared(address, 16, 16), 16);
    if (std::memcmp(eight, async_view() + address, 16) != 0)
      m.fault<OrderFault>("a product reads byte " + std::to_string(address) +
                              " of shared memory, written without fence_async or changed since",
                          m.place().thread);
  };
  std::uint16_t eight[8];
  if (form.rows_of_depth) {
    for (unsigned k = 0; k < depth; ++k)
      for (unsigned n = 0; n < form.columns; n += 8) {
        read(k, n, eight);
        std::memcpy(&b[k * form.columns + n], eight, 16);
      }
  } else {
    for (unsigned n = 0; n < form.columns; ++n)
      for (unsigned k = 0; k < depth; k += 8) {
        read(k, n, eight);
        for (unsigned i = 0; i < 8; ++i) b[(k + i) * form.columns + n] = eight[i];
      }
  }
  return b;
}

Warpgroup& running_group() { return machine().async.groups[machine().place().thread / group_threads]; }

// Returns the position of a thread's sum. For columns from 8j on, d[4j + i] of thread t is row 16 *
// warp + lane/4, plus 8 where i >= 2, and column 2 * (lane%4) + i%2.
std::size_t place_of(unsigned thread, unsigned number, unsigned columns) {
  const unsigned lane = thread % warp_threads, i = number % 4;
  const unsigned row = thread / warp_threads * 16 + lane / 4 + 8 * (i / 2);
  return std::size_t{row} * columns + number / 4 * 8 + 2 * (lane % 4) + i % 2;
}

std::size_t take_sums(Warpgroup& group, const ProductForm& form, void* const* parts) {
  const auto part = [&](unsigned t) -> const ProductPart& { return *static_cast<ProductPart*>(parts[t]); };
  for (std::size_t s = 0; s < group.sums.size(); ++s)
    if (group.sums[s].in_flight > 0 && group.sums[s].at[0] == part(0).d) return s;
  Sums sums{{}, form.columns, 0, std::vector<float>(std::size_t{rows} * form.columns)};
  for (unsigned t = 0; t < group_threads; ++t) {
    sums.at[t] = part(t).d;
    for (unsigned i = 0; i < form.columns / 2; ++i) {
      sums.values[place_of(t, i, form.columns)] = part(t).d[i];
      std::memcpy(part(t).d + i, &sums_poison, sizeof sums_poison);
    }
  }
  group.sums.push_back(std::move(sums));
  return group.sums.size() - 1;
}

// Adds the product. A's element 2r + h of a thread is row 16 * warp + lane/4, plus 8 where r is
// odd, and column 2 * (lane%4) + h, plus 8 where r >= 2.
void multiply(const GroupProduct& product, std::vector<float>& values) {
  const unsigned columns = product.form.columns;
  std::vector<float> b(product.b.size());
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = product.form.widen(product.b[i]);
  for (unsigned t = 0; t < group_threads; ++t)
    for (unsigned e = 0; e < 8; ++e) {
      const unsigned lane = t % warp_threads, r = e / 2;
      const float a = product.form.widen(product.a[t][r] >> 16 * (e % 2) & 0xffff);
      const unsigned row = t / warp_threads * 16 + lane / 4 + 8 * (r % 2);
      const unsigned k = 2 * (lane % 4) + e % 2 + 8 * (r / 2);
      float* const to = &values[std::size_t{row} * columns];
      for (unsigned n = 0; n < columns; ++n) to[n] += a * b[k * columns + n];
    }
}

void land(Warpgroup& group, const GroupProduct& product) {
  Machine& m = machine();
  for (unsigned t = 0; t < group_threads; ++t)
    if (std::memcmp(product.a_at[t], product.a[t].data(), sizeof product.a[t]) != 0)
      m.fault<OrderFault>("changes what a product multiplies before it was waited for", m.place().thread + t);
  if (read_b(product.b_at, product.form) != product.b)
    m.fault<OrderFault>("shared memory changed while a product read it", m.place().thread);
  Sums& sums = group.sums[product.sums];
  if (!product.accumulate) sums.values.assign(sums.values.size(), 0.0f);
  multiply(product, sums.values);
  if (--sums.in_flight > 0) return;
  for (unsigned t = 0; t < group_threads; ++t)
    for (unsigned i = 0; i < sums.columns / 2; ++i) {
      if (std::memcmp(sums.at[t] + i, &sums_poison, sizeof sums_poison) != 0)
        m.fault<OrderFault>("touches the sums of a product before it was waited for", m.place().thread + t);
      sums.at[t][i] = sums.values[place_of(t, i, sums.columns)];
    }
}

}  // namespace

void start_product(const ProductForm& form, void* const* parts) {
  Machine& m = machine();
  Warpgroup& group = running_group();
  if (!group.fenced)
    m.fault<OrderFault>("a product without a group_fence since the last wait", m.place().thread);
  const auto& first = *static_cast<ProductPart*>(parts[0]);
  GroupProduct product{group.group, take_sums(group, form, parts), form, first.b, first.accumulate, {}, {},
                       {}};
  for (unsigned t = 0; t < group_threads; ++t) {
    const auto& part = *static_cast<ProductPart*>(parts[t]);
    if (part.b != first.b || part.accumulate != first.accumulate)
      m.fault<DivergenceFault>("brings another matrix to a product than the threads before it",
                               m.place().thread + t);
    product.a_at[t] = part.a;
    std::memcpy(product.a[t].data(), part.a, sizeof product.a[t]);
  }
  product.b = read_b(product.b_at, form);
  ++group.sums[product.sums].in_flight;
  group.products.push_back(std::move(product));
  ++m.counts.products;
}

void group_fence() { running_group().fenced = true; }
void group_commit() { ++running_group().group; }

void group_wait(unsigned groups_left) {
  Warpgroup& group = running_group();
  std::size_t landed = 0;
  while (landed < group.products.size() && group.products[landed].group + groups_left < group.group)
    land(group, group.products[landed++]);
  group.products.erase(group.products.begin(), group.products.begin() + static_cast<std::ptrdiff_t>(landed));
  if (group.products.empty()) group.sums.clear();
  group.fenced = false;
}

}  // namespace troupe::kernels::cuda::emulator
