// An executor in front of another one. Before a batch runs, it makes blocks of prototypes into
// pages of its own, and the inner executor finds them there as cached blocks.
#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/decoder/prototypes.h"

namespace troupe::kernels {
namespace {

class PrototypeExecutor final : public Executor {
 public:
  PrototypeExecutor(std::unique_ptr<Executor> executor, const KvLayout& layout,
                    std::shared_ptr<const Prototypes> prototypes, std::shared_ptr<EmbeddingTable> rows)
      : executor_(std::move(executor)),
        kv_layout_(layout),
        prototypes_(std::move(prototypes)),
        rows_(std::move(rows)) {}

  PlanLimits limits() const override {
    PlanLimits limits = executor_->limits();
    limits.prototypes = prototypes_->checksum();
    return limits;
  }
  std::string fault(const Plan& plan) const override;
  const PageLayout& layout() const override { return executor_->layout(); }
  void run(std::span<const Request> batch, std::vector<Reply>& replies) override;
  bool waits_by_layer() const override { return executor_->waits_by_layer(); }
  void measure(PassTimes* times) override { executor_->measure(times); }
  std::unique_ptr<Executor> share(std::uint32_t executor) const override {
    return std::make_unique<PrototypeExecutor>(executor_->share(executor), kv_layout_, prototypes_, rows_);
  }

 private:
  using Page = std::unique_ptr<std::byte, decltype(&std::free)>;
  std::byte* page(std::size_t number);
  // Returns the prototypes of a span's tokens; stops at the first token without one.
  std::vector<std::uint32_t> find(const Plan& plan, const Repair::ReusedSpan& reused) const;

  std::unique_ptr<Executor> executor_;
  const KvLayout kv_layout_;
  std::shared_ptr<const Prototypes> prototypes_;
  std::shared_ptr<EmbeddingTable> rows_;  // null: read from the file
  std::vector<Page> pages_;               // as many as the largest batch so far needed
};

std::vector<std::uint32_t> PrototypeExecutor::find(const Plan& plan, const Repair::ReusedSpan& reused) const {
  const Segment& own = plan.segments[reused.segment];
  std::vector<std::uint32_t> numbers;
  for (std::size_t t = 0; t < own.tokens.size(); ++t) {
    const auto number = prototypes_->find(
        own.tokens[t], static_cast<std::uint32_t>(own.start) + static_cast<std::uint32_t>(t));
    if (!number) break;
    numbers.push_back(*number);
  }
  return numbers;
}

std::string PrototypeExecutor::fault(const Plan& plan) const {
  for (const Repair::ReusedSpan& reused : plan.repair.reused_spans) {
    if (!reused.of_prototypes) continue;
    const std::size_t found = find(plan, reused).size(), tokens = plan.segments[reused.segment].tokens.size();
    if (found < tokens)
      return "token " + std::to_string(found) + " of segment " + std::to_string(reused.segment) +
             " has no prototype; expected one of each token of a block that is made of prototypes";
  }
  return executor_->fault(plan);
}

std::byte* PrototypeExecutor::page(std::size_t number) {
  if (number == pages_.size()) {
    auto* const bytes =
        static_cast<std::byte*>(std::aligned_alloc(64, (kv_layout_.page_bytes() + 63) / 64 * 64));
    if (bytes == nullptr) throw std::bad_alloc();
    pages_.emplace_back(bytes, &std::free);
  }
  return pages_[number].get();
}

void PrototypeExecutor::run(std::span<const Request> batch, std::vector<Reply>& replies) {
  const auto needs = [](const Request& request) {
    return std::ranges::any_of(request.plan->repair.reused_spans, &Repair::ReusedSpan::of_prototypes);
  };
  if (std::ranges::none_of(batch, needs)) return executor_->run(batch, replies);
  std::vector<Request> filled(batch.begin(), batch.end());
  std::vector<Plan> plans;  // plans for the inner executor, in which these blocks are cached
  plans.reserve(batch.size());
  std::size_t used = 0;
  for (Request& request : filled) {
    if (!needs(request)) continue;
    Plan& plan = plans.emplace_back(*request.plan);
    request.plan = &plan;
    plan.repair.prototypes.clear();
    for (Repair::ReusedSpan& reused : plan.repair.reused_spans) {
      if (!std::exchange(reused.of_prototypes, false)) continue;
      SegmentKv& kv = request.kv[reused.block];
      TROUPE_CHECK(kv.source == Source::compute && kv.pages.empty(),
                   "a block of prototypes must be neither cached nor kept");
      const std::vector<std::uint32_t> numbers = find(plan, reused);
      const Segment& block = plan.segments[reused.block];
      TROUPE_CHECK(numbers.size() == block.tokens.size(),
                   "prototypes: expected a prototype for each token of the block");
      kv.source = Source::cached;
      for (std::size_t i = 0; i < kv_layout_.pages_for(numbers.size()); ++i) kv.pages.push_back(page(used++));
      prototypes_->fill(kv_layout_, numbers, block.start, kv.pages, rows_.get());
    }
  }
  executor_->run(filled, replies);
}

}  // namespace

std::unique_ptr<Executor> with_prototypes(std::unique_ptr<Executor> executor, const KvLayout& layout,
                                          std::shared_ptr<const Prototypes> prototypes,
                                          std::shared_ptr<EmbeddingTable> rows) {
  return std::make_unique<PrototypeExecutor>(std::move(executor), layout, std::move(prototypes),
                                             std::move(rows));
}

}  // namespace troupe::kernels
