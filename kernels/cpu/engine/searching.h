#pragma once
// What a beam search keeps on the CPU, and what a level's readout takes. Memory is kept from search to search
// (xGR §6.3).
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/engine/beam_tails.h"
#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/decoder/searching.h"
#include "kernels/operations/exponential_sum.h"

namespace troupe::kernels {

struct CpuSearching : Searching {
  FloatBuffer pages;  // of what the request has no pages for
  BeamTails tails;
};

// Of a group of rows in a pass: the level that it belongs to.
struct BeamGroup {
  BeamTails* tails = nullptr;
  std::uint32_t first_row = 0, rows = 0;  // of the whole level
};

// Rows of a level whose logits are read at the same rows of the output projection.
struct ReadJob {
  std::size_t begin = 0, end = 0;  // rows of the level
  bool normalised = false;         // by the logits of all rows of the projection
  std::span<const Token> rows;     // ascending; none: each row its own wanted ones
  std::vector<Token> some;         // what `rows` are, if they are not the vocabulary
};

struct SearchReadout {
  std::vector<const float*> states;            // [row]
  std::vector<std::span<const Token>> wanted;  // [row]; the vocabulary if it is all of it
  std::vector<std::size_t> first;              // [row]: of its logits
  std::vector<float> logits;                   // of what is wanted, row after row
  std::vector<ExponentialSum> sums;            // [part of the vocabulary][row of its job]
  std::vector<double> log_totals;              // [row]
  std::vector<const float*> at;                // [row]: its logits
  std::vector<ReadJob> jobs;                   // the first jobs_used of them; the others keep their memory
  std::size_t jobs_used = 0;
  std::vector<Token> vocabulary;  // all of it

  ReadJob& add_job(std::size_t begin, std::size_t end, bool normalised);
};

}  // namespace troupe::kernels
