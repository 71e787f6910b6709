// Parses what a Redis, or an impostor, sends: replies in pieces, and the results of our scripts, rows and
// records.
#include "runtime/config/config.h"
#include "runtime/features/model_fingerprints.h"
#include "runtime/redis/redis_reply.h"
#include "runtime/redis/redis_scripts.h"
#include "runtime/redis/redis_url.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

constexpr RedisReplyLimits limits{.bytes_max = 4'096, .elements_max = 64};
constexpr std::size_t depth_max = 9;  // depth of nested lists in hiredis
const PageQuestion question{"o", 3, 3, 10, "ann"};

void check_page(const CatalogPage& page) {
  std::uint64_t last = page.after;
  TROUPE_CHECK(page.entries.size() <= question.items, "a page is longer than asked for");
  for (const CatalogPage::Entry& entry : page.entries) {
    TROUPE_CHECK(entry.version > last && entry.version <= page.version, "versions do not rise");
    last = entry.version;
  }
  if (page.user) split_user_row(*page.user);
  if (const auto made_for = decode_model_fingerprints(page.made_for)) {
    const auto again = decode_model_fingerprints(encode(*made_for));
    TROUPE_CHECK(again && *again == *made_for, "a note changes on its way");
  }
}

void use(RedisReply& reply) {
  if (const auto outcome = read_outcome(reply))
    TROUPE_CHECK(outcome->version <= std::uint64_t{1} << 53, "a version that Lua cannot count to");
  if (const auto page = read_page(reply, question)) check_page(*page);
}

void check_replies(Input input, std::size_t step) {
  RedisReplyReader reader(limits);
  reader.begin();
  const MemoryWatch memory;
  const std::size_t kept_max =
      depth_max * limits.elements_max * sizeof(RedisReply) + 48 * input.size() + 1'024;
  for (std::string_view left = text_of(input); !left.empty();
       left.remove_prefix(std::min(step, left.size()))) {
    if (const std::string fault = reader.add(left.substr(0, step)); !fault.empty())
      return check_words(fault, 256);
    for (;;) {
      auto next = reader.next();
      TROUPE_CHECK(memory.most() <= kept_max, "replies take more than they bring");
      if (const auto* fault = std::get_if<std::string>(&next)) return check_words(*fault, 256);
      if (std::holds_alternative<RedisReplyReader::NeedsBytes>(next)) break;
      use(std::get<RedisReply>(next));
    }
  }
}

void check_url(std::string_view url) {
  try {
    const RedisAddress address = parse_redis_url(url);
    TROUPE_CHECK(!address.host.empty() && address.port != 0, "an address that is none");
    check_words(describe(address), url.size() + 64);
  } catch (const ConfigError& error) {
    check_words(error.what(), 1'024);
  }
}

void run(Input input) {
  const std::uint8_t choice = take_choice(input);
  if (choice == 'u') return check_url(text_of(input));
  check_replies(input, choice % 32 + 1);
}

std::string text(const std::string& value) {
  return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

std::vector<std::string> seeds() {
  const std::string changed = "*4\r\n" + text("a") + text("4") + text("b") + text("6");
  const std::string rows = "*2\r\n" + text("record") + "$-1\r\n";
  const std::string note = encode(ModelFingerprints{"m", "v", "p"});
  return {"0*8\r\n" + text("o") + ":3\r\n:6\r\n" + changed + rows + text("7 row") + ":7\r\n" + text(note),
          "\x1f*2\r\n" + text("written") + ":9\r\n*1\r\n" + text("missing"),
          "3+OK\r\n-ERR no\r\n:-5\r\n$-1\r\n*-1\r\n*0\r\n",
          "5*1\r\n*1\r\n*1\r\n*1\r\n" + text("changed"),
          "uredis://user:p%40ss@[::1]:6380/2",
          "uredis://cache.local"};
}

}  // namespace

const Target redis_target{"redis", run, seeds, true};

}  // namespace troupe::fuzz
