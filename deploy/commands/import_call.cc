// Writes imported rows as lines of JSON, sends them in requests of bounded size, and reads the answers.
#include "deploy/commands/import_call.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "runtime/wire/json_text.h"

namespace troupe::deploy {

using nlohmann::json;

namespace {

constexpr std::size_t lines_max = 1'000, bytes_max = 4 << 20;
constexpr int attempts_max = 10;

void add_member(std::string& line, const char* name, const std::string& value) {
  line += (line.size() > 1 ? ",\"" : "\"") + std::string(name) + "\":" + value;
}
std::string in_json(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}
template <class List, class Write>
std::string list_of(const List& list, Write write) {
  std::string text = "[";
  for (const auto& element : list) text += (text.size() > 1 ? "," : "") + write(element);
  return text + "]";
}
template <class Number>
std::string numbers(const std::vector<Number>& list) {
  return list_of(list, [](Number number) { return std::to_string(number); });
}

// Other programs in front of a server answer in forms of their own.
std::string text_of(const json& object, const char* member, const std::string& absent) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : absent;
}
json object_of(const json& object, const char* member) {
  const auto found = object.is_object() ? object.find(member) : object.end();
  return object.is_object() && found != object.end() && found->is_object() ? *found : json::object();
}

std::uint64_t number_of(const json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

bool has_no_capacity(std::uint64_t status) { return status == 429 || status == 503; }

std::string fault_of(const std::string& path, const server::HttpReply& reply) {
  const json error = object_of(json::parse(reply.body, nullptr, false), "error");
  return text_of(error, "where", path) + ": " +
         text_of(error, "message", "status " + std::to_string(reply.status)) + "; expected " +
         text_of(error, "expected", "a troupe server");
}

json parsed_line(std::string_view line) {
  json parsed = json::parse(line, nullptr, false);
  if (!parsed.is_object())
    throw std::runtime_error("the server's answer is no JSON; expected a troupe server");
  return parsed;
}

// Results of one request, by the row of each line.
class Batch {
 public:
  Batch(const ImportLines& lines, const std::vector<std::size_t>& rows, std::size_t first) : first_(first) {
    for (; first + size_ < rows.size() && size_ < lines_max && body_.size() < bytes_max; ++size_)
      body_ += lines.line(rows[first + size_]) + "\n";
  }
  const std::string& body() const { return body_; }
  std::size_t end() const { return first_ + size_; }

  // Adds the results to `result`, and rows that are to be sent again to `again`.
  void read(const std::string& answer, const std::vector<std::size_t>& rows, ImportResult& result,
            std::vector<std::size_t>& again) const {
    std::string_view rest = answer;
    for (std::size_t i = 0; i < size_; ++i) read_line(next_line(rest), rows[first_ + i], result, again);
    if (!parsed_line(next_line(rest)).contains("lines"))
      throw std::runtime_error("the server's answer was cut off; expected a result for each line");
  }

 private:
  static std::string_view next_line(std::string_view& rest) {
    const std::size_t end = rest.find('\n');
    if (end == rest.npos)
      throw std::runtime_error("the server's answer was cut off; expected a result for each line");
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return line;
  }
  static void read_line(std::string_view text, std::size_t row, ImportResult& result,
                        std::vector<std::size_t>& again) {
    const json line = parsed_line(text);
    const std::uint64_t status = number_of(line, "status");
    if (has_no_capacity(status)) return again.push_back(row);
    if (status == 200) {
      ++result.stored;
      result.version = std::max(result.version, number_of(line, "version"));
      return;
    }
    const json error = object_of(line, "error");
    result.refused.push_back({row, text_of(error, "code", ""),
                              text_of(error, "message", "status " + std::to_string(status)),
                              text_of(error, "where", ""), text_of(error, "expected", "a troupe server")});
  }

  std::size_t first_, size_ = 0;
  std::string body_;
};

}  // namespace

SendRequest requests_to(const ServerOptions& options) {
  return [connection = std::make_shared<server::HttpConnection>(), call = options.call()](
             const std::string& path, const std::string& body) {
    server::HttpCall request = call;
    request.method = body.empty() ? "GET" : "POST";
    request.target = path;
    request.body = body;
    request.headers = "content-type: application/x-ndjson\r\n";
    return connection->call(request);
  };
}

namespace {

// Sends rows in requests, up to the first with refused lines, or one that the server has no capacity for.
class Sender {
 public:
  Sender(const SendRequest& send, const ImportLines& lines,
         const std::function<bool(const RefusedLine&)>& goes_on)
      : send_(send), lines_(lines), goes_on_(goes_on) {}

  // Returns the rows that are to be sent again.
  std::vector<std::size_t> send_all(const std::vector<std::size_t>& rows) {
    std::vector<std::size_t> again;
    for (std::size_t at = 0; at < rows.size() && !is_refused_;) {
      const Batch batch(lines_, rows, at);
      if (!send_batch(batch, rows, at, again)) {
        again.insert(again.end(), rows.begin() + static_cast<std::ptrdiff_t>(at), rows.end());
        break;
      }
      at = batch.end();
    }
    return again;
  }
  bool is_refused() const { return is_refused_; }
  const std::string& busy() const { return busy_; }  // why the server had no capacity for a request
  ImportResult result;

 private:
  // Returns false if the server has no capacity for the request.
  bool send_batch(const Batch& batch, const std::vector<std::size_t>& rows, std::size_t at,
                  std::vector<std::size_t>& again) {
    const std::size_t before = result.refused.size();
    bool stores_none = false;
    try {
      const server::HttpReply reply = send_(lines_.path, batch.body());
      stores_none = reply.status >= 400 && reply.status < 500;
      if (has_no_capacity(reply.status)) {
        busy_ = fault_of(lines_.path, reply);
        return false;
      }
      if (reply.status != 200) throw std::runtime_error(fault_of(lines_.path, reply));
      batch.read(reply.body, rows, result, again);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(error.what() + progress(rows[at], stores_none));
    }
    for (std::size_t i = before; i < result.refused.size(); ++i)
      is_refused_ = is_refused_ || !goes_on_ || !goes_on_(result.refused[i]);
    return true;
  }

  // Says what is stored when the request that begins with `row` has failed.
  std::string progress(std::size_t row, bool stores_none) const {
    if (stores_none && result.stored == 0) return "";
    return ". " + std::to_string(result.stored) + " of " + std::to_string(lines_.count) + " rows are stored" +
           (stores_none ? "" : ", and perhaps some from " + lines_.where(row, "") + " on") + ": " +
           lines_.advice;
  }

  const SendRequest& send_;
  const ImportLines& lines_;
  const std::function<bool(const RefusedLine&)>& goes_on_;
  bool is_refused_ = false;
  std::string busy_;
};

}  // namespace

ImportResult send_lines(const SendRequest& send, const ImportLines& lines, const std::function<void()>& wait,
                        const std::function<bool(const RefusedLine&)>& goes_on) {
  Sender sender(send, lines, goes_on);
  std::vector<std::size_t> rows(lines.count);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  for (int attempt = 0; !rows.empty() && !sender.is_refused(); ++attempt) {
    if (attempt == attempts_max)
      throw std::runtime_error(
          lines.where(rows.front(), "") + ": the server has no capacity for this row and " +
          std::to_string(rows.size() - 1) + " more" +
          (sender.busy().empty() ? "" : " (" + sender.busy() + ")") + "; expected an answer within " +
          std::to_string(attempts_max) + " attempts. The others are stored: " + lines.advice);
    if (attempt > 0) wait();
    rows = sender.send_all(rows);
  }
  return std::move(sender.result);
}

std::string line_of(const PutItem& item) {
  std::string line = "{";
  add_member(line, "item", in_json(item.item));
  if (!item.title.empty()) add_member(line, "title", in_json(item.title));
  add_member(line, "tokens", numbers(item.tokens));
  if (item.identifier >= 0) add_member(line, "identifier", std::to_string(item.identifier));
  if (!item.publish) add_member(line, "publish", "false");
  return line + "}";
}

std::string line_of(const PutUser& user) {
  std::string line = "{";
  add_member(line, "user", in_json(user.user));
  add_member(line, "history", list_of(user.history, in_json));
  if (!user.features.empty())
    add_member(line, "features", list_of(user.features, [](const Feature& feature) {
                 return "{\"name\":" + in_json(feature.name) + ",\"values\":" + numbers(feature.values) + "}";
               }));
  if (!user.event_ids.empty()) add_member(line, "event_ids", list_of(user.event_ids, in_json));
  return line + "}";
}

std::string events_line_of(const PutUser& user) {
  std::vector<std::string> events;
  for (std::size_t i = 0; i < user.history.size(); ++i) {
    std::string event = "{";
    if (!user.event_ids.empty() && !user.event_ids[i].empty())
      add_member(event, "id", in_json(user.event_ids[i]));
    add_member(event, "item", in_json(user.history[i]));
    for (const Feature& feature : user.features)
      add_member(event, feature.name.substr(0, feature.name.size() - 1).c_str(),
                 std::to_string(feature.values[i]));
    events.push_back(event + "}");
  }
  std::string line = "{";
  add_member(line, "user", in_json(user.user));
  add_member(line, "events", list_of(events, [](const std::string& event) { return event; }));
  return line + "}";
}

}  // namespace troupe::deploy
