// Wraps an executor so that its beam searches ignore the catalog and drop invalid paths at the end.
// It is the baseline against which xGR's valid-path search is measured.
#include "kernels/decoder/unconstrained.h"

#include <algorithm>
#include <utility>

namespace troupe::kernels {
namespace {

class Unconstrained final : public Executor {
 public:
  explicit Unconstrained(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}

  PlanLimits limits() const override { return executor_->limits(); }
  const PageLayout& layout() const override { return executor_->layout(); }
  void measure(PassTimes* times) override { executor_->measure(times); }
  std::unique_ptr<Executor> share(std::uint32_t executor) const override {
    return unconstrained(executor_->share(executor));
  }

  void run(std::span<const Request> batch, std::vector<Reply>& replies) override {
    std::vector<Plan> plans(batch.size());
    std::vector<Request> asked(batch.begin(), batch.end());
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (is_constrained(batch[i])) widen(asked[i], plans[i]);
    executor_->run(asked, replies);
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (is_constrained(batch[i])) keep_items(batch[i], replies[i].beams);
  }

 private:
  static bool is_constrained(const Request& request) { return request.paths() != nullptr; }
  // Makes all paths of the search come back, as most may be no items.
  static void widen(Request& request, Plan& plan) {
    plan = *request.plan;
    plan.search.steps = request.paths()->depth();
    plan.search.results = plan.search.width;
    plan.search.denied.clear();
    request.plan = &plan;
  }
  static void keep_items(const Request& request, std::vector<Beam>& beams) {
    const Search& search = request.plan->search;
    const std::shared_ptr<const PathIndex> paths = request.paths();
    std::erase_if(beams, [&](const Beam& beam) {
      const PathIndex::Node node = paths->find(beam.path);
      return node == PathIndex::none || !paths->is_leaf(node) ||
             std::ranges::find(search.denied, Tokens(beam.path)) != search.denied.end();
    });
    if (beams.size() > search.results) beams.resize(search.results);
  }

  std::unique_ptr<Executor> executor_;
};

}  // namespace

std::unique_ptr<Executor> unconstrained(std::unique_ptr<Executor> executor) {
  return std::make_unique<Unconstrained>(std::move(executor));
}

}  // namespace troupe::kernels
