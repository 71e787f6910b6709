// Converts questions to etcd into JSON, and etcd's JSON responses into answers. A response that
// does not fit the question is refused with a description of the fault.
#include "runtime/coordination/etcd_messages.h"

#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "kernels/base/check.h"
#include "runtime/wire/json_bounds.h"
#include "runtime/wire/json_text.h"

namespace troupe {
namespace {

using Value = nlohmann::json;

constexpr JsonBounds bounds{.values_max = 4'096, .depth_max = 16};  // bounds of a genuine response
constexpr std::size_t words_max = 200;  // length of foreign text quoted in our refusals
constexpr std::size_t token_bytes_max = 4 << 10;
constexpr int code_not_found = 5;  // gRPC's status code

// ---- questions ----

std::string quoted(std::string_view name, std::string_view value) {  // neither needs escaping
  return '"' + std::string(name) + "\":\"" + std::string(value) + '"';
}

std::string quoted(std::string_view name, std::uint64_t value) { return quoted(name, std::to_string(value)); }

std::string has_revision(const std::string& key, Revision expected) {
  return "{\"target\":\"MOD\",\"result\":\"EQUAL\"," + key + "," + quoted("mod_revision", expected) + "}";
}

// Condition of a transaction beside that on its own key: ",{…}", or "".
std::string guarded_by(const std::optional<EtcdGuard>& guard, const std::string& prefix) {
  return guard ? "," + has_revision(quoted("key", to_base64(prefix + guard->key)), guard->revision) : "";
}

// Makes a transaction: does `change` if the key's revision is `expected` (0 = absent) and the guard
// holds, else returns the key.
EtcdQuestion transaction(const std::string& key, Revision expected, const std::string& guard,
                         const std::string& change) {
  return {"/v3/kv/txn",
          "{\"compare\":[" + has_revision(key, expected) + guard + "],\"success\":[{" + change +
              "}],\"failure\":[{\"request_range\":{" + key + "}}]}",
          true};
}

// One overload for each question; `prefix` precedes our keys, `guard` is a further condition.
EtcdQuestion asked(const ReadKey& read, const std::string& prefix, const std::string&) {
  return {"/v3/kv/range", "{" + quoted("key", to_base64(prefix + read.key)) + "}"};
}
EtcdQuestion asked(const WatchKey& watch, const std::string& prefix, const std::string& guard) {
  return asked(ReadKey{watch.key}, prefix, guard);
}
EtcdQuestion asked(const WriteKey& write, const std::string& prefix, const std::string& guard) {
  const std::string key = quoted("key", to_base64(prefix + write.key));
  return transaction(key, write.expected, guard,
                     "\"request_put\":{" + key + "," + quoted("value", to_base64(write.value)) + "," +
                         quoted("lease", write.lease) + "}");
}
EtcdQuestion asked(const EraseKey& erase, const std::string& prefix, const std::string& guard) {
  const std::string key = quoted("key", to_base64(prefix + erase.key));
  return transaction(key, erase.expected, guard, "\"request_delete_range\":{" + key + "}");
}
EtcdQuestion asked(const OpenLease& open, const std::string&, const std::string&) {
  const auto seconds = static_cast<std::uint64_t>((open.ttl_us + 999'999) / 1'000'000);
  return {"/v3/lease/grant", "{" + quoted("TTL", seconds) + "}", true};
}
EtcdQuestion asked(const KeepLease& keep, const std::string&, const std::string&) {
  return {"/v3/lease/keepalive", "{" + quoted("ID", keep.lease) + "}"};
}
EtcdQuestion asked(const RaiseRevisions&, const std::string&, const std::string&) {
  TROUPE_CHECK(false, "etcd is not asked to raise revisions; its caller reads and writes the history");
  return {};
}

// ---- answers ----

// Extracts members from a response and remembers the first one that is not as expected. A missing
// or wrong member reads as zero, empty or null, so callers check the fault once, at the end.
class JsonMembers {
 public:
  const std::string& fault() const { return fault_; }
  void expect(bool holds, std::string_view what) {
    if (!holds && fault_.empty()) fault_ = "not an answer of etcd: expected " + std::string(what);
  }

  const Value& object(const Value& parent, const char* name) {
    return checked(find(parent, name), &Value::is_object, name, "an object");
  }
  // Returns the only element of a list, or null if the list is empty or missing.
  const Value& only(const Value& parent, const char* name) {
    const Value& list = find(parent, name);
    if (list.is_null()) return list;
    checked(list, &Value::is_array, name, "a list");
    expect(!list.is_array() || list.size() <= 1, "one element at most in \"" + std::string(name) + "\"");
    return list.is_array() && !list.empty() ? list[0] : null;
  }
  bool flag(const Value& parent, const char* name) {
    const Value& flag = find(parent, name);
    return !flag.is_null() && checked(flag, &Value::is_boolean, name, "a boolean").is_boolean() &&
           flag.get<bool>();
  }
  std::uint64_t number(const Value& parent, const char* name) {
    const std::string text = this->text(parent, name);
    std::uint64_t value = 0;
    if (text.empty()) return 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    expect(error == std::errc() && stop == text.data() + text.size(),
           "a number in the string \"" + std::string(name) + "\"");
    return fault_.empty() ? value : 0;
  }
  std::string bytes(const Value& parent, const char* name) {
    std::string bytes;
    expect(from_base64(text(parent, name), bytes), "base64 in \"" + std::string(name) + "\"");
    return bytes;
  }

 private:
  static const Value& find(const Value& parent, const char* name) {
    if (!parent.is_object()) return null;
    const auto found = parent.find(name);
    return found == parent.end() ? null : *found;
  }
  const Value& checked(const Value& value, bool (Value::*is)() const noexcept, const char* name,
                       const char* what) {
    const bool holds = (value.*is)();
    expect(holds, std::string(what) + " as \"" + name + "\"");
    return holds ? value : null;
  }
  std::string text(const Value& parent, const char* name) {
    const Value& text = find(parent, name);
    if (text.is_null()) return "";
    return checked(text, &Value::is_string, name, "a string").is_string() ? text.get<std::string>() : "";
  }

  inline static const Value null;
  std::string fault_;
};

CoordinationReply shown(JsonMembers& members, bool ok, const Value& range, const std::string& key) {
  const Value& found = members.only(range, "kvs");
  if (found.is_null()) return {ok, 0, ""};
  members.expect(members.bytes(found, "key") == key, "the key that was asked for");
  const Revision revision = members.number(found, "mod_revision");
  members.expect(revision > 0, "\"mod_revision\" above 0");
  return {ok, revision, members.bytes(found, "value")};
}

// Returns the result of a transaction, or the key if nothing was changed.
CoordinationReply transacted(JsonMembers& members, const Value& body, const std::string& key,
                             const char* done) {
  const bool ok = members.flag(body, "succeeded");
  const Value& response = members.only(body, "responses");
  const Value& inner = members.object(response, ok ? done : "response_range");
  return ok ? CoordinationReply{true} : shown(members, false, inner, key);
}

// One overload for each question; `body` is the object with etcd's answer.
CoordinationReply answered(JsonMembers& members, const Value& body, const ReadKey& read,
                           const std::string& prefix) {
  return shown(members, true, body, prefix + read.key);
}
CoordinationReply answered(JsonMembers& members, const Value& body, const WatchKey& watch,
                           const std::string& prefix) {
  return shown(members, true, body, prefix + watch.key);
}
CoordinationReply answered(JsonMembers& members, const Value& body, const WriteKey& write,
                           const std::string& prefix) {
  CoordinationReply said = transacted(members, body, prefix + write.key, "response_put");
  if (said.ok) said.revision = members.number(members.object(body, "header"), "revision");
  if (said.ok) said.value = write.value;
  members.expect(!said.ok || said.revision > write.expected, "a revision above the one that was replaced");
  return said;
}
CoordinationReply answered(JsonMembers& members, const Value& body, const EraseKey& erase,
                           const std::string& prefix) {
  return transacted(members, body, prefix + erase.key, "response_delete_range");
}
CoordinationReply answered(JsonMembers& members, const Value& body, const OpenLease& open,
                           const std::string&) {
  const std::uint64_t seconds = members.number(body, "TTL");
  members.expect(seconds >= static_cast<std::uint64_t>((open.ttl_us + 999'999) / 1'000'000),
                 "a lease of at least " + std::to_string(open.ttl_us) + " us");
  const LeaseId lease = members.number(body, "ID");
  members.expect(lease != 0, "\"ID\" of the lease");
  return {true, 0, "", lease};
}
CoordinationReply answered(JsonMembers& members, const Value& body, const KeepLease& keep,
                           const std::string&) {
  members.expect(members.number(body, "ID") == keep.lease, "\"ID\" of the lease that was asked for");
  if (members.number(body, "TTL") == 0) return {};
  return {true, 0, "", keep.lease};
}

CoordinationReply answered(JsonMembers& members, const Value&, const RaiseRevisions&, const std::string&) {
  members.expect(false, "another question");
  return {};
}

// Returns null for invalid JSON, and for more values or levels than a genuine response has.
Value parse(std::string_view body) {
  if (!exceeded_bound(body, bounds).empty()) return {};
  Value value = Value::parse(body.begin(), body.end(), nullptr, false);
  return value.is_discarded() ? Value() : value;
}

// Extracts etcd's own error text; a stream has it inside "error".
EtcdFault fault_of(unsigned status, const Value& body) {
  const Value& stream = body.is_object() && body.contains("error") ? body["error"] : body;
  const Value& object = stream.is_object() ? stream : body;
  EtcdFault fault{"HTTP status " + std::to_string(status)};
  if (!object.is_object()) return fault;
  std::string words;
  if (object.contains("message") && object["message"].is_string()) words = object["message"];
  if (!words.empty()) fault.what += ": " + printable(words.substr(0, words_max));
  fault.no_lease = object.contains("code") && object["code"] == code_not_found &&
                   words.find("lease not found") != std::string::npos;
  for (const char* said : {"invalid auth token", "user name is empty", "revision of auth store is old"})
    fault.no_login = fault.no_login || words.find(said) != std::string::npos;
  return fault;
}

}  // namespace

EtcdQuestion etcd_question(const Coordinate& question, const std::string& prefix,
                           const std::optional<EtcdGuard>& guard) {
  const std::string condition = guarded_by(guard, prefix);
  return std::visit([&](const auto& what) { return asked(what, prefix, condition); }, question.what);
}

std::variant<EtcdAnswer, EtcdFault> etcd_answer(const Coordinate& question, const std::string& prefix,
                                                unsigned status, std::string_view text) {
  const Value whole = parse(text);
  if (status != 200 || (whole.is_object() && whole.contains("error"))) return fault_of(status, whole);
  JsonMembers members;
  members.expect(whole.is_object(), "a JSON object");
  const bool streamed = std::holds_alternative<KeepLease>(question.what);
  const Value& body = streamed ? members.object(whole, "result") : whole;
  const Value& header = members.object(body, "header");
  EtcdAnswer answer;
  answer.cluster = members.number(header, "cluster_id");
  answer.revision = members.number(header, "revision");
  members.expect(answer.cluster != 0 && answer.revision != 0,
                 "\"cluster_id\" and \"revision\" in \"header\"");
  answer.said =
      std::visit([&](const auto& what) { return answered(members, body, what, prefix); }, question.what);
  if (!members.fault().empty()) return EtcdFault{members.fault()};
  return answer;
}

EtcdQuestion etcd_login_question(const Login& login) {
  const Value body{{"name", login.user}, {"password", login.password}};
  return {"/v3/auth/authenticate", body.dump(-1, ' ', false, Value::error_handler_t::replace)};
}

std::variant<std::string, EtcdFault> etcd_login_answer(unsigned status, std::string_view text) {
  const Value body = parse(text);
  if (status != 200) return fault_of(status, body);
  const bool has_token = body.is_object() && body.contains("token") && body["token"].is_string();
  const std::string token = has_token ? body["token"].get<std::string>() : "";
  const bool is_header = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7f; });
  if (token.empty() || token.size() > token_bytes_max || !is_header)
    return EtcdFault{"not an answer of etcd: expected \"token\", a short word"};
  return token;
}

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL appends a zero
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

// OpenSSL also accepts spaces around the text and bits after the last byte. Text that does not
// encode back to itself is rejected.
bool from_base64(std::string_view text, std::string& bytes) {
  bytes.clear();
  if (text.empty()) return true;
  if (text.size() % 4 != 0) return false;
  bytes.resize(text.size() / 4 * 3);
  const int size =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  const int padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(std::max(size - padding, 0)));
  if (to_base64(bytes) == text) return true;
  bytes.clear();
  return false;
}

}  // namespace troupe
