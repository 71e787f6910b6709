// Parses the answers of an etcd, or of an impostor, to each kind of request, and the members stored in it.
#include <array>

#include "runtime/coordination/etcd_messages.h"
#include "runtime/coordination/members.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

const std::string prefix = "/troupe/t/";

const std::array<Coordinate, 6>& questions() {
  static const std::array<Coordinate, 6> all{
      Coordinate{ReadKey{"k"}},     Coordinate{WatchKey{"k", 3, 1}},  Coordinate{WriteKey{"k", "v", 3}},
      Coordinate{EraseKey{"k", 3}}, Coordinate{OpenLease{1'500'000}}, Coordinate{KeepLease{5}}};
  return all;
}

void check_base64(std::string_view text) {
  std::string bytes, again;
  if (!from_base64(text, bytes)) return;
  TROUPE_CHECK(bytes.size() <= text.size() / 4 * 3, "base64 that grows");
  TROUPE_CHECK(from_base64(to_base64(bytes), again) && again == bytes, "bytes change in base64");
}

void check_answer(const Coordinate& question, unsigned status, std::string_view body) {
  const auto answer = etcd_answer(question, prefix, status, body);
  if (const auto* fault = std::get_if<EtcdFault>(&answer)) return check_words(fault->what, 512);
  const EtcdAnswer& said = std::get<EtcdAnswer>(answer);
  TROUPE_CHECK(status == 200 && said.cluster != 0 && said.revision != 0, "an answer of no etcd");
  TROUPE_CHECK(said.said.value.size() <= body.size(), "a value that is longer than what came");
  if (std::holds_alternative<OpenLease>(question.what))
    TROUPE_CHECK(said.said.lease != 0, "a lease of no number");
}

void check_members(std::string_view text) {
  const auto parsed = parse_members(text);
  if (const auto* fault = std::get_if<std::string>(&parsed)) return check_words(*fault, 200);
  const ClusterMembers& members = std::get<ClusterMembers>(parsed);
  TROUPE_CHECK(members.joined.size() <= members_max && members.left.size() <= members_max,
               "more members than may be");
  const auto again = parse_members(members_text(members));
  TROUPE_CHECK(std::holds_alternative<ClusterMembers>(again) && std::get<ClusterMembers>(again) == members,
               "members change in their text");
}

void run(Input input) {
  const std::uint8_t choice = take_choice(input);
  if (choice == 'b') return check_base64(text_of(input));
  if (choice == 'm') return check_members(text_of(input));
  check_answer(questions()[choice % 8 % 6], choice & 8 ? 400 : 200, text_of(input));
}

std::vector<std::string> seeds() {
  const std::string header = R"({"header":{"cluster_id":"15118495548433857066","revision":"9"})";
  const std::string key = R"({"key":"L3Ryb3VwZS90L2s=","mod_revision":"7","version":"1","value":"dg=="})";
  return {"0" + header + R"(,"kvs":[)" + key + R"(],"count":"1"})",
          "0" + header + "}",
          "2" + header + R"(,"succeeded":true,"responses":[{"response_put":{"header":{"revision":"9"}}}]})",
          "2" + header + R"(,"responses":[{"response_range":{"kvs":[)" + key + "]}}]}",
          "3" + header + R"(,"succeeded":true,"responses":[{"response_delete_range":{"deleted":"1"}}]})",
          "4" + header + R"(,"ID":"5","TTL":"2"})",
          "5{\"result\":" + header + R"(,"ID":"5","TTL":"2"}})",
          R"(8{"error":"etcdserver: requested lease not found","code":5,)"
          R"("message":"etcdserver: requested lease not found"})",
          "bZm9v",
          "mlast 7\njoined 6 10.0.0.6 5006 w6\nleaving 6\nleft 2\n"};
}

}  // namespace

const Target etcd_target{"etcd", run, seeds, true};

}  // namespace troupe::fuzz
