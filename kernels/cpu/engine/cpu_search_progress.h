#pragma once
// State of a beam search on the CPU, and of the readout of a level. Memory is kept from search to
// search (xGR §6.3).
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/engine/beam_tails.h"
#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/decoder/search_progress.h"
#include "kernels/operations/exponential_sum.h"

namespace troupe::kernels {

struct CpuSearchProgress : SearchProgress {
  FloatBuffer pages;  // keys and values for which the request has no pages
  BeamTails tails;
};

// The level that a group of rows in a pass belongs to.
struct BeamGroup {
  BeamTails* tails = nullptr;
  std::uint32_t first_row = 0, rows = 0;  // in the whole level
};

// Rows of a level whose logits are read at the same rows of the output projection.
struct ReadJob {
  std::size_t begin = 0, end = 0;  // rows of the level
  bool normalised = false;         // over the logits of all rows of the projection
  std::span<const Token> rows;     // ascending; empty: each row has its own wanted rows
  std::vector<Token> some;         // storage of `rows`, if they are not the vocabulary
};

struct SearchReadout {
  std::vector<const float*> states;            // [row]
  std::vector<std::span<const Token>> wanted;  // [row]; the vocabulary if all of it is wanted
  std::vector<std::size_t> first;              // [row]: index of its first logit
  std::vector<float> logits;                   // of the wanted tokens, row after row
  std::vector<ExponentialSum> sums;            // [part of the vocabulary][row of its job]
  std::vector<double> log_totals;              // [row]
  std::vector<const float*> at;                // [row]: its logits
  std::vector<ReadJob> jobs;                   // the first jobs_used are valid; the others keep their memory
  std::size_t jobs_used = 0;
  std::vector<Token> vocabulary;  // all tokens

  ReadJob& add_job(std::size_t begin, std::size_t end, bool normalised);
};

}  // namespace troupe::kernels
