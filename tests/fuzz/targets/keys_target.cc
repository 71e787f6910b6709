// Parses files of API keys, and the header that carries a key. An accepted file is the same after it is
// written and read again; a key is found only by the header that was made with it.
#include "server/auth/api_keys.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

void check_header(const server::ApiKeys& keys, std::string_view header) {
  const auto found = keys.find(header, "");
  const auto* refusal = std::get_if<Refusal>(&found);
  TROUPE_CHECK(refusal, "a key was found by an arbitrary header");  // the hash of an unknown key
  TROUPE_CHECK(refusal->kind == RefusalKind::unauthenticated || refusal->kind == RefusalKind::forbidden,
               "an unexpected kind");
  check_words(refusal->what, 256);
}

void run(Input input) {
  const bool of_header = take_choice(input) % 2 == 1;
  static const server::ApiKeys usual = [] {
    server::ApiKeys keys;
    keys.add(server::make_key({.tenant = "acme"}).key);
    return keys;
  }();
  if (of_header) return check_header(usual, text_of(input));
  try {
    const server::ApiKeys keys = server::ApiKeys::parse(text_of(input));
    const std::string text = keys.text();
    TROUPE_CHECK(server::ApiKeys::parse(text).text() == text, "another file when it is written");
    check_header(keys, "Bearer tk-none-none");
  } catch (const server::KeysError& error) {
    check_words(error.what(), 1'024);
  }
}

std::vector<std::string> seeds() {
  server::ApiKeys keys;
  keys.add({.id = "9f86d081884c",
            .tenant = "acme",
            .admin = true,
            .rate = 2.5,
            .at_once = 8,
            .salt = std::string(32, 'a'),
            .hash = std::string(64, 'b'),
            .made = "2026-11-24"});
  keys.add({.id = "0f86d081884c",
            .any_tenant = true,
            .salt = std::string(32, '1'),
            .hash = std::string(64, '2'),
            .made = "2026-11-24"});
  const std::string of_file(1, '\0'), of_header(1, '\1');
  return {of_file + keys.text(), of_file + "\n", of_header + "Bearer tk-9f86d081884c-" + std::string(64, 'c'),
          of_header + "Basic eA=="};
}

}  // namespace

const Target keys_target{"keys", run, seeds, true};

}  // namespace troupe::fuzz
