#include "server/auth/api_keys.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::server;

namespace api_keys_test {

std::string asked(const ApiKeys& keys, const std::string& authorization, const std::string& tenant = "") {
  const auto found = keys.find(authorization, tenant);
  const auto* refusal = std::get_if<Refusal>(&found);
  return refusal ? std::string(name_of(refusal->kind)) + " " + refusal->code
                 : "tenant " + std::get<ApiKeys::Caller>(found).tenant;
}

std::string parse_fault(const std::string& text) {
  try {
    ApiKeys::parse(text);
    return "";
  } catch (const KeysError& error) {
    return error.what();
  }
}

TEST_SUITE("API keys") {
  TEST_CASE("API keys: a key is accepted for its tenant until it is revoked") {
    ApiKeys keys;
    const NewKey acme = make_key({.tenant = "acme"}), other = make_key({.tenant = "b"});
    keys.add(acme.key), keys.add(other.key);
    CHECK(asked(keys, "Bearer " + acme.text) == "tenant acme");
    CHECK(asked(keys, "bearer  " + other.text) == "tenant b");
    CHECK(asked(keys, "Bearer " + acme.text, "acme") == "tenant acme");
    CHECK(asked(keys, "Bearer " + acme.text, "b") == "forbidden not_your_tenant");
    CHECK(keys.revoke(acme.key.id));
    CHECK_FALSE(keys.revoke(acme.key.id));
    CHECK(asked(keys, "Bearer " + acme.text) == "unauthenticated bad_key");
  }

  TEST_CASE("API keys: an invalid key is refused, and the tenant header alone is not enough") {
    ApiKeys keys;
    const NewKey made = make_key({.tenant = "acme"});
    keys.add(made.key);
    CHECK(asked(keys, "", "acme") == "unauthenticated no_key");
    std::string wrong = made.text;
    wrong.back() = wrong.back() == '0' ? '1' : '0';
    for (const std::string& bad : {wrong, made.text + "0", made.text.substr(1), made.key.id,
                                   std::string("tk-"), "tk-" + std::string(77, 'f'), made.key.hash})
      CHECK(asked(keys, "Bearer " + bad) == "unauthenticated bad_key");
    CHECK(asked(keys, made.text) == "unauthenticated bad_key");
    CHECK(asked(keys, "Basic " + made.text) == "unauthenticated bad_key");
    // An unknown id must not match the hash that stands for unknown ids.
    CHECK(asked(ApiKeys(), "Bearer " + made.text) == "unauthenticated bad_key");
  }

  TEST_CASE("API keys: a gateway's key acts for the header's tenant") {
    ApiKeys keys;
    const NewKey made = make_key({.tenant = "own", .any_tenant = true});
    keys.add(made.key);
    CHECK(asked(keys, "Bearer " + made.text, "acme") == "tenant acme");
    CHECK(asked(keys, "Bearer " + made.text) == "tenant own");
  }

  TEST_CASE("API keys: the file has no secrets, and all fields of a key") {
    ApiKeys keys;
    const NewKey made =
        make_key({.tenant = "a \"b\"", .admin = true, .rate = 2.5, .at_once = 3, .made = "2026-11-24"});
    keys.add(made.key);
    const std::string text = keys.text();
    CHECK(text.find(made.text.substr(16)) == std::string::npos);
    const ApiKeys again = ApiKeys::parse("\n" + text + "  \n");
    CHECK(asked(again, "Bearer " + made.text) == "tenant a \"b\"");
    const ApiKey& key = again.all().at(made.key.id);
    CHECK(key.admin);
    CHECK_FALSE(key.any_tenant);
    CHECK(key.rate == 2.5);
    CHECK(key.at_once == 3);
    CHECK(again.text() == text);
    CHECK(parse_fault(text + text).starts_with("2: the id "));
  }

  TEST_CASE("API keys: what shows all tenants needs an admin's key, and metrics also take a scrape key") {
    const auto refused = [](const ApiKey& key, KeyRight right) {
      const auto refusal = reject_without_right(key, right);
      return refusal ? refusal->code : "";
    };
    const ApiKey acme{.tenant = "acme"}, gateway{.any_tenant = true}, admin{.admin = true},
        scraper{.scrape = true};
    for (const ApiKey& key : {acme, gateway}) {
      CHECK(refused(key, KeyRight::ask) == "");
      CHECK(refused(key, KeyRight::none) == "");
      CHECK(refused(key, KeyRight::metrics) == "needs_scrape_key");
      CHECK(refused(key, KeyRight::admin) == "needs_admin_key");
    }
    for (const KeyRight right : {KeyRight::ask, KeyRight::metrics, KeyRight::admin})
      CHECK(refused(admin, right) == "");
    CHECK(refused(scraper, KeyRight::metrics) == "");
    CHECK(refused(scraper, KeyRight::none) == "");
    CHECK(refused(scraper, KeyRight::ask) == "only_metrics");
    CHECK(refused(scraper, KeyRight::admin) == "needs_admin_key");
    ApiKeys keys;
    const NewKey made = make_key({.scrape = true});
    keys.add(made.key);
    CHECK(ApiKeys::parse(keys.text()).all().at(made.key.id).scrape);
  }

  TEST_CASE("API keys: a damaged file is refused, naming the line") {
    CHECK(parse_fault("{").starts_with("1: the line is not a JSON object"));
    CHECK(parse_fault("\n[]").starts_with("2: "));
    CHECK(parse_fault(R"({"id":1})").find("id is not known, or has the wrong type") != std::string::npos);
    CHECK(parse_fault(R"({"id":"a","salt":"b","hash":"c"})").find("malformed") != std::string::npos);
    CHECK(parse_fault("{\"id\":" + std::string(1000, '[')).find("not a key") != std::string::npos);
    CHECK(parse_fault(R"({"secret":"x"})").find("secret is not known") != std::string::npos);
  }

  TEST_CASE("API keys: two keys always differ, and so do two hashes of one secret") {
    const NewKey a = make_key({}), b = make_key({});
    CHECK(a.key.id != b.key.id);
    CHECK(a.text != b.text);
    CHECK(a.key.salt != b.key.salt);
  }
}

}  // namespace api_keys_test
