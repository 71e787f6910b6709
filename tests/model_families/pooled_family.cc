#include "tests/model_families/pooled_family.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>

#include "kernels/base/check.h"
#include "kernels/base/thread_clock.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/executor/passes.h"

namespace troupe::families {
namespace {

using kernels::PageLayout;
using kernels::PlanLimits;
using kernels::Reply;
using kernels::Request;

struct ItemCount : kernels::CatalogAssets {
  explicit ItemCount(CatalogPointer of) : catalog(std::move(of)) {}
  std::shared_ptr<const kernels::PathIndex> paths() const override { return catalog->paths(); }

  const CatalogPointer catalog;
  float items = 0;
};

actors::AssetsPointer count_items(const CatalogPointer& catalog) {
  auto count = std::make_shared<ItemCount>(catalog);
  for (ItemNumber n = catalog->next(0); n != no_item; n = catalog->next(n + 1)) ++count->items;
  return count;
}

struct Weights {
  std::vector<float> embedding, inner,
      output;  // [vocabulary × hidden], [hidden × hidden], [vocabulary × hidden]
};

Weights draw_weights(const PooledShape& shape) {
  std::mt19937_64 random(shape.seed);
  const auto draw = [&](std::size_t count) {
    std::vector<float> numbers(count);
    for (float& number : numbers)
      number = static_cast<float>(random() >> 40) / static_cast<float>(1 << 23) - 1;
    return numbers;
  };
  const std::size_t rows = std::size_t{shape.vocabulary} * shape.hidden;
  return {draw(rows), draw(std::size_t{shape.hidden} * shape.hidden), draw(rows)};
}

PlanLimits limits_of(const PooledShape& shape) {
  return {.vocabulary = static_cast<std::int32_t>(shape.vocabulary),
          .positions_max = static_cast<std::int32_t>(shape.positions_max),
          .width_max = 512};
}

using kernels::Beam;
using kernels::Search;
using kernels::Token;

// Replaces each row by the logarithm of its softmax.
void normalise(std::vector<float>& logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  for (float& logit : logits) logit -= most + static_cast<float>(std::log(sum));
}

kernels::PathIndex index_of(const std::vector<kernels::Tokens>& paths) {
  std::vector<std::span<const Token>> runs;
  for (const kernels::Tokens& path : paths) runs.emplace_back(path.data(), path.size());
  return kernels::PathIndex(runs);
}

class PooledExecutor final : public kernels::Executor {
 public:
  PooledExecutor(std::shared_ptr<const Weights> weights, const PooledShape& shape, std::uint32_t page_tokens)
      : weights_(std::move(weights)), shape_(shape), layout_(pooled_layout(shape, page_tokens)) {}

  PlanLimits limits() const override { return limits_of(shape_); }
  const PageLayout& layout() const override { return layout_; }
  using Executor::run;
  void run(std::span<const Request> batch, std::vector<Reply>& replies) override {
    const double begin = kernels::thread_cpu_seconds();
    replies.resize(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) answer(batch[i], replies[i]);
    if (times_ != nullptr) times_->linear += kernels::thread_cpu_seconds() - begin;
  }
  void measure(kernels::PassTimes* times) override { times_ = times; }
  std::unique_ptr<Executor> share(std::uint32_t) const override {
    return std::make_unique<PooledExecutor>(weights_, shape_, layout_.page_tokens);
  }

 private:
  // Returns embeddings of one segment, token by token.
  std::vector<float> embeddings_of(const Request& request, std::size_t segment) const;
  void keep(const std::vector<float>& embeddings, std::span<std::byte* const> pages) const;
  void answer(const Request& request, Reply& reply) const;
  std::vector<float> sum_of(std::span<const float> embeddings) const;
  std::vector<Beam> search(const Search& search, const kernels::PathIndex& paths, std::vector<float> sum,
                           std::size_t tokens) const;
  std::vector<float> log_softmax(std::vector<float> sum, std::size_t tokens) const;
  std::vector<float> read(const std::vector<float>& mean, std::span<const kernels::Token> rows) const;

  const std::shared_ptr<const Weights> weights_;
  const PooledShape shape_;
  const PageLayout layout_;
  kernels::PassTimes* times_ = nullptr;
};

std::vector<float> PooledExecutor::embeddings_of(const Request& request, std::size_t segment) const {
  const auto& tokens = request.plan->segments[segment].tokens;
  const kernels::SegmentKv& kv = request.kv[segment];
  std::vector<float> all;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const float* from = &weights_->embedding[static_cast<std::size_t>(tokens[t]) * shape_.hidden];
    if (kv.source == kernels::Source::cached)
      from = reinterpret_cast<const float*>(kv.pages[t / layout_.page_tokens]) +
             t % layout_.page_tokens * shape_.hidden;
    all.insert(all.end(), from, from + shape_.hidden);
  }
  return all;
}

void PooledExecutor::keep(const std::vector<float>& embeddings, std::span<std::byte* const> pages) const {
  const auto* from = reinterpret_cast<const std::byte*>(embeddings.data());
  std::size_t left = embeddings.size() * sizeof(float);
  for (std::byte* page : pages) {
    const std::size_t bytes = std::min(left, layout_.bytes);
    std::memcpy(page, from, bytes);
    std::memset(page + bytes, 0, layout_.bytes - bytes);
    from += bytes, left -= bytes;
  }
}

void PooledExecutor::answer(const Request& request, Reply& reply) const {
  const kernels::Plan& plan = *request.plan;
  TROUPE_CHECK(validate(plan, limits()).empty(), "a sound plan");
  std::vector<std::vector<float>> segments;
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    segments.push_back(embeddings_of(request, s));
    if (request.kv[s].source == kernels::Source::compute) keep(segments[s], request.kv[s].pages);
  }
  reply.too_large.clear();
  reply.readouts.clear();
  reply.beams.clear();
  if (plan.search.width > 0) {
    std::vector<float> all = segments[plan.search.segment];
    for (const std::uint32_t seen : plan.segments[plan.search.segment].sees)
      all.insert(all.end(), segments[seen].begin(), segments[seen].end());
    const auto paths = request.paths();
    TROUPE_CHECK(paths || !plan.search.allowed.empty(), "a search has paths");
    reply.beams = search(plan.search, paths ? *paths : index_of(plan.search.allowed), sum_of(all),
                         all.size() / shape_.hidden);
  }
  for (const kernels::Readout& readout : plan.readouts) {
    std::vector<float> mean(shape_.hidden);
    std::size_t tokens = 0;
    const auto add = [&](std::span<const float> embeddings) {
      for (std::size_t i = 0; i < embeddings.size(); ++i) mean[i % shape_.hidden] += embeddings[i];
      tokens += embeddings.size() / shape_.hidden;
    };
    for (const std::uint32_t seen : plan.segments[readout.segment].sees) add(segments[seen]);
    add(std::span(segments[readout.segment]).first((readout.offset + 1) * shape_.hidden));
    for (float& number : mean) number /= static_cast<float>(tokens);
    reply.readouts.push_back(read(mean, readout.rows));
    if (request.assets != nullptr)
      for (float& logit : reply.readouts.back())
        logit += static_cast<const ItemCount&>(*request.assets).items;
  }
}

std::vector<float> PooledExecutor::sum_of(std::span<const float> embeddings) const {
  std::vector<float> sum(shape_.hidden);
  for (std::size_t i = 0; i < embeddings.size(); ++i) sum[i % shape_.hidden] += embeddings[i];
  return sum;
}

std::vector<float> PooledExecutor::log_softmax(std::vector<float> sum, std::size_t tokens) const {
  for (float& number : sum) number /= static_cast<float>(tokens);
  std::vector<Token> all(shape_.vocabulary);
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> logits = read(sum, all);
  normalise(logits);
  return logits;
}

// Expands all paths of each level and sorts them. Denied paths are removed at the end, so the levels keep
// all paths.
std::vector<Beam> PooledExecutor::search(const Search& search, const kernels::PathIndex& paths,
                                         std::vector<float> sum, std::size_t tokens) const {
  struct Open {
    Beam beam;
    kernels::PathIndex::Node node;
    std::vector<float> sum;
  };
  std::vector<Open> open{{{}, kernels::PathIndex::root, std::move(sum)}};
  const std::vector<kernels::Tokens>& denied = search.denied;
  std::vector<Beam> whole;
  for (; !open.empty(); ++tokens) {
    std::vector<Open> next;
    for (const Open& parent : open) {
      const std::vector<float> logits = log_softmax(parent.sum, tokens);
      for (const Token token : paths.next(parent.node)) {
        Open child = parent;
        child.beam.path.push_back(token);
        child.beam.log_probability += logits[static_cast<std::size_t>(token)];
        if (search.by_token) child.beam.by_token.push_back(logits[static_cast<std::size_t>(token)]);
        child.node = paths.child(parent.node, token);
        const float* row = &weights_->embedding[static_cast<std::size_t>(token) * shape_.hidden];
        for (std::size_t i = 0; i < child.sum.size(); ++i) child.sum[i] += row[i];
        if (!paths.is_leaf(child.node)) {
          next.push_back(std::move(child));
        } else if (std::ranges::find(denied, kernels::Tokens(child.beam.path)) == denied.end()) {
          whole.push_back(std::move(child.beam));
        }
      }
    }
    open = std::move(next);
  }
  std::ranges::sort(whole, [](const Beam& a, const Beam& b) {
    return a.log_probability != b.log_probability ? a.log_probability > b.log_probability : a.path < b.path;
  });
  if (whole.size() > search.results) whole.resize(search.results);
  return whole;
}

std::vector<float> PooledExecutor::read(const std::vector<float>& mean,
                                        std::span<const kernels::Token> rows) const {
  const auto dot = [&](const float* weight, const std::vector<float>& with) {
    float sum = 0;
    for (std::size_t i = 0; i < with.size(); ++i) sum += weight[i] * with[i];
    return sum;
  };
  std::vector<float> inner(shape_.hidden), logits;
  for (std::size_t i = 0; i < inner.size(); ++i)
    inner[i] = std::max(0.0f, dot(&weights_->inner[i * shape_.hidden], mean));
  for (const kernels::Token row : rows)
    logits.push_back(dot(&weights_->output[static_cast<std::size_t>(row) * shape_.hidden], inner));
  return logits;
}

PooledShape read_shape(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "config.json";
  const nlohmann::json document = kernels::read_json_file(file, 1 << 16);
  const kernels::JsonFields fields(file, document);
  const auto count = [&](const char* key) {
    return static_cast<std::uint32_t>(fields.integer(key, 1, 1 << 16));
  };
  return {count("vocab_size"), count("hidden_size"), count("max_position_embeddings"),
          fields.integer("seed", 0, 1 << 30)};
}

std::uint32_t page_tokens_of(const Config& config) { return config.pool.page_tokens; }

}  // namespace

void write_pooled_model(const std::filesystem::path& directory, const PooledShape& shape, bool ranks) {
  std::filesystem::create_directories(directory);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(directory / name) << text;
  };
  write("config.json", nlohmann::json{{"model_type", "pooled_mlp"},
                                      {"vocab_size", shape.vocabulary},
                                      {"hidden_size", shape.hidden},
                                      {"max_position_embeddings", shape.positions_max},
                                      {"seed", shape.seed}}
                           .dump());
  write("vocab.json", R"({"<bos>":0,"<user>":1,"<disc>":2})");
  write("prompt.json",
        ranks ? R"({"system":["<bos>",3],"user":["<user>"],"instruction":[],"discriminant":["<disc>"],)"
                R"("arrangements":["item_first","user_first"],"interchangeable":["item_first","user_first"]})"
              : R"({"system":["<bos>",3],"user":["<user>"],"instruction":[]})");
}

kernels::PageLayout pooled_layout(const PooledShape& shape, std::uint32_t page_tokens) {
  return {std::size_t{page_tokens} * shape.hidden * sizeof(float), page_tokens,
          "embeddings of " + std::to_string(shape.hidden) + " numbers"};
}

std::unique_ptr<kernels::Executor> make_pooled_executor(const PooledShape& shape, std::uint32_t page_tokens) {
  return std::make_unique<PooledExecutor>(std::make_shared<const Weights>(draw_weights(shape)), shape,
                                          page_tokens);
}

// Approximates the family as a decoder of one layer with one narrow head; it attends to nothing.
placement::ModelShape pooled_cost(const PooledShape& shape) {
  return {.name = "pooled",
          .layers = 1,
          .hidden = shape.hidden,
          .heads = 1,
          .kv_heads = 1,
          .head_dim = std::max(1u, shape.hidden / 2),
          .intermediate = shape.hidden,
          .weight_bytes = 4,
          .kv_bytes = 4,
          .linear = placement::Precision::f32,
          .attention = placement::Precision::f32};
}

deploy::ModelFamily pooled_family() {
  const auto describe = [](const std::filesystem::path& directory, const Config& config) {
    const PooledShape shape = read_shape(directory);
    return deploy::ModelFacts{limits_of(shape), pooled_layout(shape, page_tokens_of(config)),
                              pooled_cost(shape)};
  };
  const auto open = [](const std::filesystem::path& directory, const Config& config) {
    const PooledShape shape = read_shape(directory);
    const std::uint32_t page_tokens = page_tokens_of(config);
    return deploy::OpenedModel{"pooled-" + std::to_string(shape.seed),
                               [shape, page_tokens](const deploy::WrapTable&) {
                                 return deploy::Engine{make_pooled_executor(shape, page_tokens),
                                                       [](PageArena& arena, std::uint32_t) {
                                                         return std::make_unique<actors::ArenaPages>(arena,
                                                                                                     true);
                                                       }};
                               },
                               count_items};
  };
  return {"pooled", {"pooled_mlp"}, describe, open};
}

deploy::ModelFamilies model_families_with_pooled() {
  deploy::ModelFamilies families = deploy::all_families();
  families.push_back(pooled_family());
  return families;
}

}  // namespace troupe::families
