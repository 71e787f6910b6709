// Implements completion: the most probable continuations of a prompt that the client gives as
// tokens. They have the requested length, or are identifiers of the catalog. The prompt belongs to
// no user, so its blocks have no names.
#include <utility>

#include "kernels/base/path_index.h"
#include "router/fleet/fingerprint.h"
#include "router/request/request.h"

namespace troupe::router {
namespace {

class Completing final : public RequestOf<CompleteRequest> {
 public:
  explicit Completing(CompleteRequest&& request)
      : RequestOf(std::move(request)), fingerprint_(router::fingerprint(request_)) {
    search_.results = request_.n;
    search_.width = request_.beam_width > 0 ? request_.beam_width : request_.n;
    if (!request_.items) search_.steps = request_.max_tokens;
    search_.by_token = request_.logprobs;
  }

  std::string_view kind() const override { return "complete"; }
  std::string_view model() const override { return request_.model; }
  std::uint64_t home() const override { return fingerprint_; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  std::string catalog_version() const override { return catalog_ ? catalog_->version() : ""; }
  std::optional<FindFeatures> features() const override {
    if (!request_.items) return std::nullopt;
    return FindFeatures{.paths = true};
  }
  std::optional<Refusal> take(const PromptForm& form, const RequestLimits&,
                              const Features& features) override;
  std::vector<Candidate> candidates(const PromptForm& form, const BlockNames& names) override;

  std::string validate_beams(std::span<const Beam> beams) const override;
  Message reply(RunResult&& result) override;

 private:
  bool is_completion(const std::vector<Token>& path) const;

  std::uint64_t fingerprint_;  // of the whole request
  CatalogPointer catalog_;     // of items
  std::shared_ptr<const kernels::PathIndex> paths_;
  Search search_;
};

std::optional<Refusal> Completing::take(const PromptForm& form, const RequestLimits&,
                                        const Features& features) {
  catalog_ = features.catalog;
  paths_ = catalog_->paths();
  if (paths_->empty())
    return Refusal{RefusalKind::unprocessable, "empty_catalog", "the catalog has no items", "catalog",
                   "items that were put or imported"};
  const std::size_t steps = paths_->depth(), positions = request_.prompt.size() + steps;
  if (steps > request_.max_tokens)
    return Refusal{RefusalKind::unprocessable, "too_long",
                   "identifiers have up to " + std::to_string(steps) + " tokens", "max_tokens",
                   "at least as many"};
  if (positions > form.positions_max)
    return Refusal{RefusalKind::unprocessable, "too_long",
                   "the prompt and an identifier take " + std::to_string(positions) + " positions", "prompt",
                   "at most " + std::to_string(form.positions_max)};
  return std::nullopt;
}

std::vector<Candidate> Completing::candidates(const PromptForm&, const BlockNames&) {
  std::vector<Candidate> made(1);
  made[0].name = "complete";
  made[0].plan.segments.push_back({.kind = SegmentKind::user, .tokens = std::move(request_.prompt)});
  made[0].plan.search = search_;
  made[0].blocks.resize(1);
  return made;
}

bool Completing::is_completion(const std::vector<Token>& path) const {
  if (!paths_) return path.size() == search_.steps;
  const kernels::PathIndex::Node leaf = paths_->find(path);
  return leaf != kernels::PathIndex::none && leaf != kernels::PathIndex::root && paths_->is_leaf(leaf);
}

std::string Completing::validate_beams(std::span<const Beam> beams) const {
  for (std::size_t i = 0; i < beams.size(); ++i) {
    if (!is_completion(beams[i].path))
      return "path " + std::to_string(i) +
             (paths_ ? " is not an identifier of the catalog" : " does not have the requested length");
    for (std::size_t before = 0; before < i; ++before)
      if (beams[before].path == beams[i].path) return "path " + std::to_string(i) + " was found twice";
  }
  return "";
}

Message Completing::reply(RunResult&& result) {
  CompleteReply reply{.id = request_.id, .completions = std::move(result.beams)};
  fill_run(result, reply);
  reply.logprobs = request_.logprobs;
  reply.items = request_.items;
  reply.catalog_version = catalog_version();
  return reply;
}

}  // namespace

std::unique_ptr<Request> take_complete(Message&& message, const Policy&) {
  return std::make_unique<Completing>(std::get<CompleteRequest>(std::move(message)));
}

}  // namespace troupe::router
