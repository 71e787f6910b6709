#include "runtime/coordination/etcd_messages.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace troupe {
namespace etcd_messages_test {

const std::string prefix = "/troupe/t/";
const std::string header = R"("header":{"cluster_id":"15118495548433857066","revision":"9"})";

// Keys and values "k" and "v" behind the prefix, as etcd encodes them.
const std::string shown_key = R"({"key":"L3Ryb3VwZS90L2s=","mod_revision":"7","version":"1","value":"dg=="})";
std::string range_of(const std::string& kvs) {
  return "{" + header + ",\"kvs\":[" + kvs + "],\"count\":\"1\"}";
}

const Coordinate read_k{ReadKey{"k"}}, write_k{WriteKey{"k", "v", 3}}, erase_k{EraseKey{"k", 3}},
    open_one{OpenLease{1'500'000}}, keep_five{KeepLease{5}};

std::variant<EtcdAnswer, EtcdFault> answer(const Coordinate& question, const std::string& body,
                                           unsigned status = 200) {
  return etcd_answer(question, prefix, status, body);
}
CoordinationReply said(const Coordinate& question, const std::string& body) {
  const auto got = answer(question, body);
  if (const auto* fault = std::get_if<EtcdFault>(&got)) FAIL(fault->what);
  return std::get<EtcdAnswer>(got).said;
}
std::string fault_of(const Coordinate& question, const std::string& body, unsigned status = 200) {
  const auto got = answer(question, body, status);
  const auto* fault = std::get_if<EtcdFault>(&got);
  return fault ? fault->what : "";
}

TEST_CASE("etcd messages: base64 round-trips, and other text is rejected") {
  const unsigned seed = 5;
  CAPTURE(seed);
  std::mt19937 random(seed);
  CHECK(to_base64("") == "");
  CHECK(to_base64("f") == "Zg==");
  CHECK(to_base64("fo") == "Zm8=");
  CHECK(to_base64("foo") == "Zm9v");
  CHECK(to_base64("\xff\xfe\xfd") == "//79");
  std::string back;
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    CHECK(from_base64(to_base64(bytes), back));
    CHECK(back == bytes);
  }
  for (const char* wrong : {"Zg", "Zg=", "Z===", "====", "Zm9v\n", "Zm 9", "Zm9-", "=Zm9", "Zg==Zg=="})
    CHECK_MESSAGE(!from_base64(wrong, back), wrong);
}

TEST_CASE("etcd messages: questions are JSON with keys behind the prefix and numbers as strings") {
  const EtcdQuestion write = etcd_question({WriteKey{"k", "v", 3, 5}}, prefix);
  CHECK(write.path == "/v3/kv/txn");
  CHECK(write.changes);
  const auto json = nlohmann::json::parse(write.body);
  CHECK(json["compare"][0]["mod_revision"] == "3");
  CHECK(json["compare"][0]["key"] == "L3Ryb3VwZS90L2s=");
  CHECK(json["success"][0]["request_put"]["lease"] == "5");
  CHECK(json["success"][0]["request_put"]["value"] == "dg==");
  CHECK(json["failure"][0]["request_range"]["key"] == "L3Ryb3VwZS90L2s=");
  CHECK(nlohmann::json::accept(etcd_question(erase_k, prefix).body));
  const auto guarded = nlohmann::json::parse(etcd_question(erase_k, prefix, EtcdGuard{"k", 8}).body);
  CHECK(guarded["compare"].size() == 2);
  CHECK(guarded["compare"][1]["mod_revision"] == "8");
  CHECK(nlohmann::json::parse(etcd_question(read_k, prefix).body)["key"] == "L3Ryb3VwZS90L2s=");
  CHECK(!etcd_question(read_k, prefix).changes);
  CHECK(!etcd_question(keep_five, prefix).changes);
}

TEST_CASE("etcd messages: a lease is rounded up to whole seconds, never down") {
  for (const auto& [us, seconds] : {std::pair{1, "1"}, {1'000'000, "1"}, {1'000'001, "2"}, {2'000'000, "2"}})
    CHECK(nlohmann::json::parse(etcd_question({OpenLease{us}}, prefix).body)["TTL"] == seconds);
}

TEST_CASE("etcd messages: answers are decoded") {
  CHECK(said(read_k, "{" + header + "}").revision == 0);
  const CoordinationReply read = said(read_k, range_of(shown_key));
  CHECK(read.ok);
  CHECK(read.revision == 7);
  CHECK(read.value == "v");
  CHECK(said({WatchKey{"k", 7, 0}}, range_of(shown_key)).revision == 7);
  const CoordinationReply written =
      said(write_k, "{" + header + R"(,"succeeded":true,"responses":[{"response_put":{}}]})");
  CHECK(written.ok);
  CHECK(written.revision == 9);
  CHECK(written.value == "v");
  const std::string not_done =
      "{" + header + R"(,"responses":[{"response_range":{"kvs":[)" + shown_key + "]}}]}";
  for (const Coordinate& change : {write_k, erase_k}) {
    CHECK(!said(change, not_done).ok);
    CHECK(said(change, not_done).revision == 7);
  }
  CHECK(said(erase_k, "{" + header + R"(,"succeeded":true,"responses":[{"response_delete_range":{}}]})").ok);
  CHECK(said(open_one, "{" + header + R"(,"ID":"4111120162042091788","TTL":"2"})").lease ==
        4111120162042091788);
  CHECK(said(keep_five, "{\"result\":{" + header + R"(,"ID":"5","TTL":"2"}})").lease == 5);
  CHECK(!said(keep_five, "{\"result\":{" + header + R"(,"ID":"5"}})").ok);
}

TEST_CASE("etcd messages: etcd's error text is reported, and an ended lease is distinguished") {
  const std::string no_lease = R"({"error":"x","message":"etcdserver: requested lease not found","code":5})";
  CHECK(std::get<EtcdFault>(answer(write_k, no_lease, 404)).no_lease);
  CHECK(fault_of(write_k, no_lease, 404).find("requested lease not found") != std::string::npos);
  const std::string stream = R"({"error":{"grpc_code":14,"http_code":503,"message":"no leader"}})";
  CHECK(fault_of(keep_five, stream) == "HTTP status 200: no leader");
  CHECK(fault_of(read_k, "<html>", 502) == "HTTP status 502");
  CHECK(fault_of(read_k, R"({"message":")" + std::string(9'999, 'x') + "\"}", 500).size() < 300);
  CHECK(!std::get<EtcdFault>(answer(read_k, R"({"message":7,"code":"5"})", 404)).no_lease);
}

TEST_CASE("etcd messages: a foreign error text is reported in one line") {
  CHECK(fault_of(read_k, R"({"message":"no\n\u001b[2Jleader"})", 503) == "HTTP status 503: no??[2Jleader");
}

TEST_CASE("etcd messages: an answer that does not fit the question is a fault with what was expected") {
  const std::string done = ",\"succeeded\":true,";
  const auto kv = [](const std::string& members) { return range_of("{" + members + "}"); };
  const std::string key = R"("key":"L3Ryb3VwZS90L2s=")";
  struct Wrong {
    Coordinate question;
    std::string body, expected;
  };
  const std::vector<Wrong> wrong{
      {read_k, "", "a JSON object"},
      {read_k, "{", "a JSON object"},
      {read_k, "[]", "a JSON object"},
      {read_k, "null", "a JSON object"},
      {read_k, "7", "a JSON object"},
      {read_k, "{}", R"(an object as "header")"},
      {read_k, "{" + header + "} {}", "a JSON object"},
      {read_k, R"({"header":{"cluster_id":"1"}})", R"("cluster_id" and "revision" in "header")"},
      {read_k, R"({"header":{"cluster_id":"1","revision":9}})", R"(a string as "revision")"},
      {read_k, R"({"header":{"cluster_id":"1","revision":"-9"}})", R"(a number in the string "revision")"},
      {read_k, R"({"header":{"cluster_id":"1","revision":"9x"}})", R"(a number in the string "revision")"},
      {read_k, R"({"header":{"cluster_id":"1","revision":"99999999999999999999"}})",
       R"(a number in the string "revision")"},
      {read_k, R"({"header":[{"cluster_id":"1","revision":"9"}]})", R"(an object as "header")"},
      {read_k, "{" + header + R"(,"kvs":{}})", R"(a list as "kvs")"},
      {read_k, "{" + header + R"(,"kvs":["x"]})", "the key that was asked for"},
      {read_k, range_of(shown_key + "," + shown_key), R"(one element at most in "kvs")"},
      {read_k, kv(key), R"("mod_revision" above 0)"},
      {read_k, kv(key + R"(,"mod_revision":"0")"), R"("mod_revision" above 0)"},
      {read_k, kv(key + R"(,"mod_revision":7)"), R"(a string as "mod_revision")"},
      {read_k, kv(key + R"(,"mod_revision":"7","value":"d")"), R"(base64 in "value")"},
      {read_k, kv(key + R"(,"mod_revision":"7","value":["dg=="])"), R"(a string as "value")"},
      {read_k, kv(R"("key":"b3RoZXI=","mod_revision":"7")"), "the key that was asked for"},
      {read_k, kv(R"("mod_revision":"7")"), "the key that was asked for"},
      {write_k, "{" + header + "}", R"(an object as "response_range")"},
      {write_k, "{" + header + done + "\"responses\":[]}", R"(an object as "response_put")"},
      {write_k, "{" + header + done + R"("responses":[{"response_range":{}}]})",
       R"(an object as "response_put")"},
      {write_k, "{" + header + R"(,"succeeded":"true","responses":[{"response_put":{}}]})",
       R"(a boolean as "succeeded")"},
      {{WriteKey{"k", "v", 9}},
       "{" + header + done + R"("responses":[{"response_put":{}}]})",
       "a revision above the one that was replaced"},
      {erase_k, "{" + header + done + R"("responses":[{"response_put":{}}]})",
       R"(an object as "response_delete_range")"},
      {open_one, "{" + header + R"(,"ID":"5","TTL":"1"})",
       "a lease of at least 1500000 us"},  // shorter than requested
      {open_one, "{" + header + R"(,"ID":"5"})", "a lease of at least 1500000 us"},
      {open_one, "{" + header + R"(,"TTL":"2"})", R"("ID" of the lease)"},
      {open_one, "{" + header + R"(,"ID":"0","TTL":"2"})", R"("ID" of the lease)"},
      {keep_five, "{" + header + R"(,"ID":"5","TTL":"2"})", R"(an object as "result")"},
      {keep_five, "{\"result\":{" + header + R"(,"ID":"6","TTL":"2"}})",
       R"("ID" of the lease that was asked for)"},
      {keep_five, "{\"result\":{" + header + R"(,"ID":"5","TTL":"-1"}})", R"(a number in the string "TTL")"},
  };
  for (const auto& [question, body, expected] : wrong) {
    CAPTURE(body);
    CHECK(fault_of(question, body) == "not an answer of etcd: expected " + expected);
  }
}

TEST_CASE("etcd messages: an endlessly nested body is a fault") {
  for (const std::string& body : {std::string(1 << 20, '['), "{\"header\":" + std::string(1 << 20, '[')})
    CHECK(fault_of(read_k, body) != "");
  std::string closed = R"({"header":{"cluster_id":"1","revision":"9"},"x":)";
  closed += std::string(1'000, '[') + std::string(1'000, ']') + "}";
  CHECK(fault_of(read_k, closed) != "");
}

TEST_CASE("etcd messages: an answer with any byte changed is an answer or a fault") {
  const unsigned seed = 7;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const std::string& good : {range_of(shown_key), "{\"result\":{" + header + R"(,"ID":"5","TTL":"2"}})"})
    for (int i = 0; i < 2'000; ++i) {
      std::string bad = good;
      for (int changes = 0; changes < 3; ++changes) bad[random() % bad.size()] = static_cast<char>(random());
      for (const Coordinate& question : {read_k, write_k, erase_k, open_one, keep_five}) {
        const auto got = answer(question, bad);
        const auto* understood = std::get_if<EtcdAnswer>(&got);
        if (understood) CHECK(understood->revision > 0);
      }
    }
}

}  // namespace etcd_messages_test
}  // namespace troupe
