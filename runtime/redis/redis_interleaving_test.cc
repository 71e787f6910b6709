// Two routers on one Redis, read on several executor slots during writes. Every answer must be one
// state that the store had, no older than the writes acknowledged before the request.
#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "runtime/testing/redis_features_test.h"

using namespace troupe;
using namespace troupe::redis_test;

namespace redis_interleaving_test {

const std::vector<std::string> item_ids{"a", "b", "c", "d", "e"}, user_ids{"ann", "bob"};

// The store after each write, as Router::find would print it.
struct Truth {
  std::map<std::string, Token> items;
  std::map<std::string, Token> users;
  std::uint64_t catalog = 0;

  std::string answer(const std::string& user) const {
    std::string text = "c" + std::to_string(catalog) + " " + user + "=";
    text += users.contains(user) ? std::to_string(users.at(user)) : "-";
    for (const std::string& id : item_ids)
      text += " " + id + "=" + (items.contains(id) ? std::to_string(items.at(id)) : "-");
    return text;
  }
};

struct ReadRecord {
  std::string user, answer;
  std::size_t acknowledged, begun;  // writes: acknowledged before the request, begun before its answer
};

class World {
 public:
  World(const RedisFeatureOptions& options, std::uint64_t seed)
      : routers_{std::make_unique<Router>(options), std::make_unique<Router>(options)}, random_(seed) {
    states_.push_back({});
  }

  // Runs until at least `writes` writes and as many answers were made. Returns the answers.
  std::vector<ReadRecord> play(std::size_t writes) {
    std::vector<std::thread> readers;
    const auto end = [&] {
      stop_ = true;
      for (std::thread& reader : readers) reader.join();
    };
    for (std::uint32_t connection = 1; connection <= 2; ++connection)
      for (const auto& router : routers_)
        readers.emplace_back([this, &router, connection] { read(router->port, connection); });
    try {
      while (states_.size() <= writes || answers_ < writes) write();
    } catch (...) {  // a write failed, which the test has noted
      end();
      throw;
    }
    end();
    return asked_;
  }
  const std::vector<Truth>& states() const { return states_; }

 private:
  void write() {
    Truth next = states_.back();
    Router& router = *routers_[random_() % 2];
    const std::string &id = item_ids[random_() % item_ids.size()], &who = user_ids[random_() % 2];
    const auto token = static_cast<Token>(states_.size() % 100'000);
    ++begun_;
    switch (random_() % 4) {
      case 0:
        next.users[who] = token;
        REQUIRE_FALSE(router.write(user(who, token)).starts_with("unavailable"));
        break;
      case 1:
        if (next.items.contains(id)) next.users[who] = next.items[id];
        REQUIRE_FALSE(router.write(history(who, {id}))
                          .starts_with(next.items.contains(id) ? "unprocessable" : "unavailable"));
        break;
      case 2:
        if (next.items.erase(id)) ++next.catalog;
        REQUIRE_FALSE(router.write(DeleteItem{0, id}).starts_with("unavailable"));
        break;
      default:
        next.items[id] = token, ++next.catalog;
        REQUIRE(router.write(item(id, token)) == std::to_string(next.catalog));
    }
    states_.push_back(std::move(next));
    ++acknowledged_;
  }

  void read(RedisFeaturePort& port, std::uint32_t connection) {
    std::vector<ReadRecord> mine;
    for (std::size_t n = connection; !stop_; ++n) {
      ReadRecord asked{user_ids[n % 2], "", acknowledged_, 0};
      asked.answer = reported(port.run(FindFeatures{"t", asked.user, item_ids}, connection), asked.user);
      asked.begun = begun_;
      mine.push_back(std::move(asked));
      ++answers_;
    }
    const std::lock_guard lock(mutex_);
    asked_.insert(asked_.end(), mine.begin(), mine.end());
  }
  static std::string reported(const JobResult& result, const std::string& user) {
    const auto* found = std::get_if<Features>(&result);
    if (!found) return std::get<Refusal>(result).what;
    const std::string text = found->catalog->version() + " " + user + "=";
    return text + (found->user ? Router::token(found->user->tokens) : "-") +
           Router::reported(*found, item_ids);
  }

  const std::unique_ptr<Router> routers_[2];
  std::mt19937_64 random_;
  std::vector<Truth> states_;  // after the first n writes; used by the writer only
  std::atomic<std::size_t> begun_ = 0, acknowledged_ = 0, answers_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<ReadRecord> asked_;
};

// Returns "" or what is wrong with the answer.
std::string fault_of(const ReadRecord& asked, const std::vector<Truth>& states) {
  for (std::size_t n = asked.acknowledged; n <= asked.begun; ++n)
    if (states[n].answer(asked.user) == asked.answer) return "";
  return "after " + std::to_string(asked.acknowledged) + ".." + std::to_string(asked.begun) +
         " writes: " + asked.answer + "; expected " + states[asked.acknowledged].answer(asked.user);
}

TEST_CASE("redis interleaving: under 1,000 writes no answer mixes states or is too old") {
  if (!RedisTestServer::is_installed()) return;
  RedisTestServer server;
  RedisFeatureOptions options = options_at(server.address());
  options.time_limit = std::chrono::seconds(10);
  SUBCASE("with default options") {}
  SUBCASE("without remembered deletions, in pages of two") {
    options.deletions_max = 0, options.page_items = 2;
  }
  SUBCASE("without history of earlier steps") { options.catalog_history_max = 0; }
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  World world(options, seed);
  const std::vector<ReadRecord> asked = world.play(1'000);
  std::size_t between = 0;  // answered while a write was under way
  for (const ReadRecord& one : asked) {
    const std::string fault = fault_of(one, world.states());
    REQUIRE_MESSAGE(fault.empty(), fault);
    between += one.begun > one.acknowledged;
  }
  MESSAGE(asked.size() << " answers during " << world.states().size() - 1 << " writes, " << between
                       << " of them beside a write");
  CHECK(between > 100);
}

}  // namespace redis_interleaving_test
