// Tests that the trained model ranks as well as its training code measured: hit rate and gain over its
// evaluation file, for both protocols.
#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/hstu/hstu.h"
#include "tests/hstu/hstu_golden.h"

using namespace troupe;
using namespace troupe::hstu;

namespace {

struct EvaluatedUser {
  HstuRequest request;
  std::size_t truth = 0;
};

template <class Number>
std::vector<Number> numbers_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<Number> numbers;
  for (Number number; in >> number;) numbers.push_back(number);
  return numbers;
}

std::vector<EvaluatedUser> read_evaluated(const std::filesystem::path& path) {
  std::string text;
  gzFile const file = gzopen(path.c_str(), "rb");
  char bytes[1 << 16];
  for (int got; (got = gzread(file, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(got));
  gzclose(file);
  std::istringstream lines(text);
  std::string line, column;
  std::getline(lines, line);
  REQUIRE(line == "user_id\thistory\ttimestamps\trequest_timestamp\tcandidates\ttrue_index");
  std::vector<EvaluatedUser> users;
  while (std::getline(lines, line)) {
    std::istringstream columns(line);
    std::vector<std::string> cells;
    while (std::getline(columns, column, '\t')) cells.push_back(column);
    users.push_back({{numbers_of<kernels::Token>(cells.at(1)), numbers_of<std::int64_t>(cells.at(2)),
                      std::stoll(cells.at(3)), numbers_of<kernels::Token>(cells.at(4))},
                     std::stoul(cells.at(5))});
  }
  return users;
}

// Sums over users; a tie counts against the true item.
struct RankSums {
  double hits = 0, gain = 0, reciprocal = 0;

  void add(const std::vector<float>& scores, std::size_t truth) {
    std::size_t rank = 0;
    for (const float score : scores) rank += score >= scores[truth];
    hits += rank <= 10;
    if (rank <= 10) gain += 1 / std::log2(static_cast<double>(rank + 1));
    reciprocal += 1 / static_cast<double>(rank);
  }
  // Compares with the file, which has four digits.
  void check(const nlohmann::json& wanted, std::size_t users) const {
    const auto is = [&](double sum, const char* name) {
      CAPTURE(name);
      CHECK(std::abs(sum / static_cast<double>(users) - wanted.at(name).get<double>()) <= 0.5001e-4);
    };
    is(hits, "hr@10");
    is(gain, "ndcg@10");
    is(reciprocal, "mrr");
  }
};

}  // namespace

TEST_SUITE("hstu") {
  TEST_CASE("HSTU metrics: hit rate and gain equal those of the training code, for both protocols") {
    const std::optional<std::filesystem::path> folder = shared_model("tiny-hstu-movielens");
    if (!folder) {
      MESSAGE("skipped: no ../shared/models/tiny-hstu-movielens");
      return;
    }
    const kernels::HstuModel model = kernels::read_hstu(*folder);
    const auto executor = kernels::make_cpu_hstu(model, {.page_tokens = 16});
    const std::vector<EvaluatedUser> users = read_evaluated(*folder / "eval.tsv.gz");
    REQUIRE(users.size() == 943);
    RankSums next_item, target_aware;
    std::vector<kernels::Reply> replies;
    for (const EvaluatedUser& user : users) {
      const kernels::Plan plan = hstu_plan(model.config, user.request);
      const kernels::Request asked{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
      executor->run({&asked, 1}, replies);
      const auto& readouts = replies[0].readouts;
      next_item.add(readouts[0], user.truth);
      std::vector<float> tasks;
      for (std::size_t c = 0; c < user.request.candidates.size(); ++c) tasks.push_back(readouts[1 + c][0]);
      target_aware.add(tasks, user.truth);
    }
    const nlohmann::json metrics =
        nlohmann::json::parse(std::ifstream(*folder / "metrics.json")).at("eval.tsv.gz (100 candidates)");
    next_item.check(metrics.at("next_item"), users.size());
    target_aware.check(metrics.at("target_aware"), users.size());
    MESSAGE("hit rate ", next_item.hits / 943, " and ", target_aware.hits / 943, ", gain ",
            next_item.gain / 943, " and ", target_aware.gain / 943);
  }
}
