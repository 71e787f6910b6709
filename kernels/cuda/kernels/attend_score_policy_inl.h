#pragma once
// Device code that turns scores into the weights of values: a policy of the attention kernels,
// which are otherwise alike. A policy has
//  invisible     the value of a score that a row does not see
//  rescales      true if weights are relative to a largest score, so that sums shrink when it grows
//  Rows          state of a thread's rows (16 * f + 8 * half + lane / 4 of the warp's vectors)
//  begin         constructs Rows
//  judge         marks, as NaN in the totals, a score that is not finite, in a tile all rows see
//  weigh         turns scores into weights
//  factor        final multiplier of a row's sum, from its total; NaN spoils the row
#include "kernels/cuda/kernels/attend_tile_inl.h"

namespace troupe::kernels::cuda {
namespace {

struct Softmax {
  static constexpr float invisible = minus_infinity;
  static constexpr bool rescales = true;

  template <unsigned fragments>
  struct Rows {};
  template <class B, unsigned fragments>
  static TROUPE_DEVICE void begin(const AttendPass&, const AttendLayer&, const AttendItem&,
                                  Rows<fragments>&) {}

  template <unsigned dim, unsigned fragments>
  static TROUPE_DEVICE void judge(const Scores<fragments>& scores, RunningSums<dim, fragments>& running) {
    TROUPE_UNROLL
    for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
    for (unsigned j = 0; j < attend_key_tile / 8; ++j) TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      running.total[f][i / 2] = multiply_add(scores.of[f][j][i], 0.0f, running.total[f][i / 2]);
  }

  // Computes powers of two relative to the largest score so far. `shrink`: the factor by which all
  // sums of `running` except its totals must be multiplied now. The difference is taken before the
  // product, so that the largest weight is one however large the score is.
  template <unsigned dim, unsigned fragments>
  static TROUPE_DEVICE void weigh(const BlockWork& work, const KeyTile&, Rows<fragments>&,
                                  Scores<fragments>& scores, RunningSums<dim, fragments>& running,
                                  float (&shrink)[fragments][2]) {
    TROUPE_UNROLL
    for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      float largest = running.largest[f][half];
      TROUPE_UNROLL
      for (unsigned j = 0; j < attend_key_tile / 8; ++j)
        largest = larger(largest, larger(scores.of[f][j][2 * half], scores.of[f][j][2 * half + 1]));
      largest = larger(largest, shuffle_xor(largest, 1));
      largest = larger(largest, shuffle_xor(largest, 2));
      const float top = largest == minus_infinity ? 0.0f : largest;  // no score seen yet: all weights are 0
      shrink[f][half] = exp2_fast((running.largest[f][half] - top) * work.scale);
      running.largest[f][half] = largest;
      float total = running.total[f][half] * shrink[f][half];
      TROUPE_UNROLL
      for (unsigned j = 0; j < attend_key_tile / 8; ++j) TROUPE_UNROLL
      for (unsigned i = 2 * half; i < 2 * half + 2; ++i) {
        scores.of[f][j][i] = exp2_fast((scores.of[f][j][i] - top) * work.scale);
        total += scores.of[f][j][i];
      }
      running.total[f][half] = total;
    }
  }

  static TROUPE_DEVICE float factor(const AttendLayer&, float total) {
    return total == 0 ? 0.0f : 1.0f / total;
  }
};

// HSTU's policy (kernels/operations/silu_attend.h): a weight is the SiLU of score plus bias. The
// bias depends on the distance of positions and on the time bucket. A row's bucket changes a few
// times along its keys; a thread follows these steps, because it visits a row's keys in ascending
// order. A pair costs an addition, a comparison and a 4-byte load, contiguous within a warp for
// consecutive positions, and two of the slow operations of which softmax needs one.
struct Silu {
  static constexpr float invisible = -1e30f;  // its silu is 0, and no product makes it infinite
  static constexpr bool rescales = false;

  struct Row {
    std::int32_t position;
    std::uint32_t step, next;  // of `steps`: the current one, and the key at which the next one starts
    float weight;              // of the current bucket
  };
  template <unsigned fragments>
  struct Rows {
    Row of[fragments][2];
    const std::int32_t* key_positions;
    const BucketStep* steps;
    const float *by_distance, *by_bucket;
  };

  template <class B, unsigned fragments>
  static TROUPE_DEVICE void begin(const AttendPass& pass, const AttendLayer& layer, const AttendItem& item,
                                  Rows<fragments>& rows) {
    rows.by_distance = layer.by_distance, rows.by_bucket = layer.by_bucket;
    if (rows.by_distance == nullptr) return;
    rows.key_positions = pass.bias.key_positions + item.key_begin;
    rows.steps = pass.bias.steps;
    TROUPE_UNROLL
    for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned vector = warp() * B::warp_vectors + 16 * f + 8 * half + lane() / 4;
      const std::uint32_t number = item.vector_begin + (vector < item.vectors ? vector : 0);
      const std::uint32_t row = item.row_begin + number / layer.heads;
      Row& at = rows.of[f][half];
      at.position = pass.bias.row_positions[row];
      at.step = pass.bias.row_steps[row];
      at.next = rows.steps[at.step + 1].key;
      at.weight = rows.by_bucket[rows.steps[at.step].bucket];
    }
  }

  template <unsigned dim, unsigned fragments>
  static TROUPE_DEVICE void judge(const Scores<fragments>&, RunningSums<dim, fragments>&) {
  }  // weights show it

  template <unsigned dim, unsigned fragments>
  static TROUPE_DEVICE void weigh(const BlockWork& work, const KeyTile& tile, Rows<fragments>& rows,
                                  Scores<fragments>& scores, RunningSums<dim, fragments>& running,
                                  float (&)[fragments][2]) {
    const bool biased = rows.by_distance != nullptr;
    TROUPE_UNROLL
    for (unsigned j = 0; j < attend_key_tile / 8; ++j) TROUPE_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned number = 8 * j + 2 * (lane() % 4) + i;
      // Clamp to the last key: the next tile may begin at any key, and rows must not advance that
      // far.
      const std::uint32_t key = tile.first + (number < tile.count ? number : tile.count - 1u);
      const std::int32_t position = biased ? rows.key_positions[key] : 0;
      TROUPE_UNROLL
      for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
      for (unsigned half = 0; half < 2; ++half) {
        const float bias = biased ? bias_of(rows, rows.of[f][half], key, position) : 0.0f;
        float& score = scores.of[f][j][2 * half + i];
        score = silu(multiply_add(score, work.plain_scale, bias));
        running.total[f][half] = multiply_add(score, 0.0f, running.total[f][half]);
      }
    }
  }

  static TROUPE_DEVICE float factor(const AttendLayer& layer, float total) { return layer.factor + total; }

 private:
  template <unsigned fragments>
  static TROUPE_DEVICE float bias_of(const Rows<fragments>& rows, Row& row, std::uint32_t key,
                                     std::int32_t position) {
    while (key >= row.next) {  // the last step's key is never reached
      ++row.step;
      row.weight = rows.by_bucket[rows.steps[row.step].bucket];
      row.next = rows.steps[row.step + 1].key;
    }
    return rows.by_distance[position - row.position] + row.weight;
  }
  static TROUPE_DEVICE float silu(float x) { return x * reciprocal_fast(1.0f + exp2_fast(x * -1.44269504f)); }
};

// Turns a tile's scores into weights; `shrink` as in weigh.
template <class Soften, class SightOf, unsigned dim, unsigned fragments>
TROUPE_DEVICE void soften(const BlockWork& work, const KeyTile& tile, const SightOf& sight_of_row,
                          typename Soften::template Rows<fragments>& rows, Scores<fragments>& scores,
                          RunningSums<dim, fragments>& running, float (&shrink)[fragments][2]) {
  if (tile.masked)
    judge_masked(work, tile, sight_of_row, Soften::invisible, scores, running);
  else
    Soften::judge(scores, running);
  Soften::weigh(work, tile, rows, scores, running, shrink);
}

}  // namespace
}  // namespace troupe::kernels::cuda
