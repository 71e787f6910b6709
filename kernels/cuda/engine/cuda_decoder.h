#pragma once
// Declares the executor of the decoder family on a device: decoder.cc implements a forward pass,
// decoder_search.cc beam searches.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/engine/decoder.h"
#include "kernels/cuda/engine/decoder_pass.h"
#include "kernels/cuda/engine/device_repairs.h"
#include "kernels/cuda/engine/level_readout.h"
#include "kernels/cuda/engine/pass_graphs.h"
#include "kernels/cuda/engine/scratch_pages.h"
#include "kernels/decoder/decoder_batch.h"
#include "kernels/decoder/search_progress.h"

namespace troupe::kernels::cuda {

struct CudaSearching : SearchProgress {
  PathRows paths;
  PageRun tokens;         // keys and values of its paths: [level][row]
  std::string too_large;  // why a level exceeds this executor's bounds; empty if it does not

  // The current level, row after row.
  std::vector<double> log_totals;
  std::vector<float> logits;
  std::vector<std::uint32_t> likely;
  std::vector<std::size_t> first;  // [rows + 1] start of each row's candidates
  std::vector<const float*> rows;
  std::vector<BeamSearch::LikelyChildren> likely_of;

  void begin_level();
  // Adds the next row with its own candidates out of the best of all rows.
  void add_row(double log_total, std::span<const SelectedLogit> taken);
  // Advances the search after all rows were added.
  void advance();
};

class CudaDecoder final : public Executor {
 public:
  CudaDecoder(std::shared_ptr<const DeviceWeights> weights, const CudaDecoderOptions& options);

  PlanLimits limits() const override;
  const PageLayout& layout() const override { return pages_; }
  using Executor::run;
  void run(std::span<const Request> requests, std::vector<Reply>& replies) override;
  void measure(PassTimes* times) override { times_ = times; }
  std::unique_ptr<Executor> share(std::uint32_t) const override;

 private:
  // decoder.cc: one forward pass
  std::string run_pass(std::span<const Request> requests, std::span<Reply> replies);
  void launch(const std::function<void()>& enqueue) { run_enqueued(stream_, times_, marks_, enqueue); }
  void enqueue_pass(const DecoderBatch& batch, const PassShape& shape);
  void enqueue_downloads(const DecoderBatch& batch);
  void distribute_replies(const DecoderBatch& batch, std::span<Reply> replies) const;

  // decoder_search.cc: beam searches, one pass per level
  struct Part {  // a range of rows of a search's level
    CudaSearching* search = nullptr;
    std::uint32_t first = 0, rows = 0;
  };
  // Returns which bound is exceeded; empty if none.
  using PartsPass = std::string (CudaDecoder::*)(std::span<const Part>);
  std::size_t search_pages(const Request& request) const;
  void run_with_searches(std::span<const Request> requests, std::span<Reply> replies);
  void run_searches(std::span<const Request> requests, std::span<Reply> replies);
  void prepare(CudaSearching& searching, std::size_t number, const Request& request, PageRun& free);
  void search(std::span<CudaSearching* const> searches);
  void run_parts(std::span<const Part> parts, PartsPass pass);
  void run_last_tokens(std::span<CudaSearching* const> searches);
  std::string last_tokens_pass(std::span<const Part> parts);
  std::string first_level_pass(std::span<const Part> parts);
  std::string level_pass(std::span<const Part> parts);
  GroupTail tail_of(const Part& part) const;
  std::byte* path_token(const CudaSearching& search, std::uint32_t level, std::uint32_t row) const;
  std::string plan_level(std::span<const Part> parts);
  void take_level(std::span<const Part> parts);

  const std::shared_ptr<const DeviceWeights> weights_;
  const CudaDecoderOptions options_;
  const KvLayout layout_;
  const PageLayout pages_;
  const AttendMachine machine_;
  const ScratchPages scratch_, search_scratch_;
  BatchPlanner batches_;
  PassPlanner plans_;
  DecoderPass pass_;
  DeviceRepairs repairs_;
  LevelReadout levels_;
  const PageLockedMemory staging_, logits_;  // of the current pass
  PassGraphs graphs_;
  PartTimers marks_;
  PassTimes* times_ = nullptr;
  Stream stream_;

  // The current searches; the memory is reused.
  std::vector<std::unique_ptr<CudaSearching>> searches_;
  std::vector<Request> begun_;  // the requests of a batch, up to the start of their searches
  std::vector<BeamRows> beams_;
  std::vector<GroupTail> tails_;
  std::vector<LevelRowQuery> row_queries_;
  std::vector<LevelSearch> level_searches_;
};

}  // namespace troupe::kernels::cuda
