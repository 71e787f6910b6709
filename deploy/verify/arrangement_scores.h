#pragma once
// Scores of one request under an arrangement: by the plain computation, which uses no cache, and with its
// blocks taken from earlier computations. The router's own plans and block names are used, so a block is
// found here under the name under which a server finds it.
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "deploy/verify/verify_requests.h"
#include "kernels/executor/executor.h"
#include "router/request/block_names.h"
#include "router/request/candidate.h"
#include "runtime/actor/block_name.h"

namespace troupe::deploy {

// Pages of blocks by name, as a server's pool has them.
class KeptBlocks {
 public:
  explicit KeptBlocks(const kernels::PageLayout& layout) : layout_(layout) {}

  // Returns the addresses of a block's pages; empty = it is not kept.
  std::vector<std::byte*> find(const BlockName& name) const;
  // Returns the addresses of new pages. The block is kept from now on, so they must be filled.
  std::vector<std::byte*> add(const BlockName& name, std::size_t tokens);
  std::size_t bytes() const { return bytes_; }
  void clear() { blocks_.clear(), bytes_ = 0; }

 private:
  struct Block {
    std::unique_ptr<std::byte, decltype(&std::free)> bytes;
    std::vector<std::byte*> pages;
  };
  const kernels::PageLayout& layout_;
  std::unordered_map<BlockName, Block, BlockNameHash> blocks_;
  std::size_t bytes_ = 0;
};

// Scores with some of a plan's blocks taken from earlier computations.
struct ReusedScores {
  std::string reused;  // "system", "user", "items", "every other block" or "all blocks"
  std::vector<float> scores;
};

class ArrangementScores {
 public:
  // All outlive the object.
  ArrangementScores(kernels::Executor& executor, const PromptForm& form, const NameContext& names);

  // Returns the number of positions that the request needs without its history; of a generator, that of its
  // frame. It fits under the arrangement if the model has as many.
  std::size_t positions(const VerifiedRequest& request, Arrangement arrangement) const;
  // Returns the candidates' scores, task by task for each; of a generator, the logits of all next tokens.
  // nullopt = the candidates alone do not fit under this arrangement. Throws ImportError for a request that
  // the model does not accept.
  std::optional<std::vector<float>> plain(const VerifiedRequest& request, Arrangement arrangement);
  // Returns the scores for each choice of blocks that are reused. Blocks that were not computed before, for
  // this request or an earlier one, are computed first. Requires that the request fits.
  std::vector<ReusedScores> reused(const VerifiedRequest& request, Arrangement arrangement);
  // Returns the logits of `rows` (empty = all) behind tokens[read_at] of a plain causal prompt. `who` names
  // the prompt in error texts. Throws ImportError for a prompt that the model does not accept.
  std::vector<float> plain_logits(const std::vector<Token>& tokens, std::size_t read_at,
                                  const std::vector<Token>& rows, const std::string& who);

  KeptBlocks& kept() { return kept_; }

 private:
  std::size_t item_positions(const VerifiedRequest& request, Arrangement arrangement) const;
  std::optional<router::Candidate> plan(const VerifiedRequest& request, Arrangement arrangement) const;
  void fill(const router::Candidate& candidate, const std::vector<std::uint32_t>& blocks,
            const std::string& who);
  std::vector<float> run(const Plan& plan, std::vector<kernels::SegmentKv> kv, const std::string& who);

  kernels::Executor& executor_;
  const PromptForm& form_;
  const router::BlockNames names_;
  KeptBlocks kept_;
  std::vector<kernels::Reply> replies_;
};

}  // namespace troupe::deploy
