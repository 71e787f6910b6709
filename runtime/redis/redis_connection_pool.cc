// Keeps one connection to Redis for each executor slot (thread of the port), and limits attempts to
// reconnect while the server is unreachable.
#include "runtime/redis/redis_connection_pool.h"

#include <algorithm>
#include <charconv>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = RedisReply::Kind;

// Extracts a field: "run_id:0f3a…\r\n" → "0f3a…"; "" if there is no such line.
std::string field_of(const RedisReply& info, const std::string& name) {
  if (!info.is(Kind::text)) return "";
  const std::size_t at = info.text.find(name + ":");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 1;
  return info.text.substr(begin, std::min<std::size_t>(info.text.find_first_of("\r\n", begin) - begin, 64));
}

std::uint64_t number_of(const RedisReply& info, const std::string& name) {
  const std::string text = field_of(info, name);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

const RedisCommand ask_memory[] = {{"INFO", "memory"}, {"INFO", "stats"}};

RedisStanding standing_of(const std::string& run, const RedisReply& memory, const RedisReply& stats) {
  return {run, field_of(memory, "maxmemory_policy"), number_of(memory, "maxmemory"),
          number_of(stats, "evicted_keys")};
}

// Returns why a server that is no plain Redis cannot be used, or "". A cluster has each key on one of its
// nodes, so a script could not touch all that it must change at once.
std::string other_mode(const RedisReply& server) {
  const std::string mode = field_of(server, "redis_mode");
  if (mode == "cluster") return "it is a Redis Cluster; expected one Redis, with or without replicas";
  if (mode == "sentinel") return "it is a Redis Sentinel; expected the Redis that it watches";
  return "";
}

bool lost_scripts(const RedisReply& reply) {
  return reply.is(Kind::error) && error_code(reply) == "NOSCRIPT";
}

}  // namespace

std::string error_code(const RedisReply& error) {
  const std::string word = error.text.substr(0, error.text.find(' '));
  const bool code = !word.empty() && word.size() <= 24 &&
                    std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
  return code ? word : "an error";
}

bool ReconnectGate::enter(RedisDeadline now) {
  const std::lock_guard lock(mutex_);
  if (!away_) return true;
  if (trying_ || now < next_try_) return false;
  return trying_ = true;
}

void ReconnectGate::leave(RedisDeadline now, bool connected, const std::string& why) {
  const std::lock_guard lock(mutex_);
  why_ = why;
  away_ = !connected;
  trying_ = false;
  next_try_ = now + pause_;
}

std::string ReconnectGate::last_why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

RedisConnectionPool::RedisConnectionPool(RedisConnectionPoolOptions options, std::vector<std::string> scripts)
    : options_(std::move(options)),
      scripts_(std::move(scripts)),
      gate_(options_.reconnect_pause),
      connections_(std::max<std::uint32_t>(1, options_.connections)) {}

OrRedisFailure<RedisConnectionPool::Session> RedisConnectionPool::take(std::uint32_t slot) {
  Session session(*this, connections_[slot % connections_.size()]);
  std::unique_ptr<RedisConnection>& connection = session.slot_->connection;
  if (connection && !connection->is_quiet()) connection.reset();
  if (connection) {
    auto failed = ask_standing(*session.slot_);
    if (!failed) return session;
    session.drop();
    return *std::move(failed);
  }
  if (!gate_.enter(Clock::now())) {
    const std::string why = gate_.last_why();
    return RedisFailure{"it was unreachable a moment ago" + (why.empty() ? "" : ": " + why)};
  }
  auto made = connect(*session.slot_);
  auto* open = std::get_if<std::unique_ptr<RedisConnection>>(&made);
  gate_.leave(Clock::now(), open != nullptr, open ? "" : std::get<RedisFailure>(made).why);
  if (!open) return std::get<RedisFailure>(std::move(made));
  connection = std::move(*open);
  return session;
}

std::vector<RedisCommand> RedisConnectionPool::greeting() const {
  const RedisAddress& address = options_.address;
  std::vector<RedisCommand> commands;
  if (!address.user.empty())
    commands.push_back({"AUTH", address.user, address.password});
  else if (!address.password.empty())
    commands.push_back({"AUTH", address.password});
  if (address.database != 0) commands.push_back({"SELECT", std::to_string(address.database)});
  add_scripts(commands);
  commands.insert(commands.end(), std::begin(ask_memory), std::end(ask_memory));
  commands.push_back({"INFO", "replication"});
  commands.push_back({"INFO", "server"});
  return commands;
}

void RedisConnectionPool::add_scripts(std::vector<RedisCommand>& commands) const {
  for (const std::string& script : scripts_) commands.push_back({"SCRIPT", "LOAD", script});
}

std::optional<RedisFailure> RedisConnectionPool::ask_standing(Slot& slot) const {
  const RedisDeadline now = Clock::now();
  if (!options_.on_standing || now - slot.standing_at < options_.standing_every) return std::nullopt;
  slot.standing_at = now;
  auto answer = slot.connection->run(ask_memory, now + options_.time_limit);
  if (const auto* failure = std::get_if<RedisFailure>(&answer)) return RedisFailure{failure->why};
  const auto& replies = std::get<std::vector<RedisReply>>(answer);
  options_.on_standing(standing_of(slot.run, replies[0], replies[1]));
  return std::nullopt;
}

OrRedisFailure<std::unique_ptr<RedisConnection>> RedisConnectionPool::connect(Slot& slot) const {
  const RedisDeadline deadline = Clock::now() + options_.time_limit;
  auto made = RedisConnection::open(options_.address, deadline);
  auto* connection = std::get_if<std::unique_ptr<RedisConnection>>(&made);
  if (!connection) return made;
  const std::vector<RedisCommand> commands = greeting();
  auto answer = (*connection)->run(commands, deadline);
  if (auto* failure = std::get_if<RedisFailure>(&answer))
    return RedisFailure{failure->why};  // the greeting changes nothing
  const auto& replies = std::get<std::vector<RedisReply>>(answer);
  if (std::string why = other_mode(replies.back()); !why.empty()) return RedisFailure{std::move(why)};
  for (std::size_t i = 0; i < replies.size(); ++i)
    if (replies[i].is(Kind::error))
      return RedisFailure{"it answers " + commands[i].front() + " with " + error_code(replies[i])};
  if (field_of(replies[replies.size() - 2], "role") != "master") return RedisFailure{"it is a replica"};
  slot.run = field_of(replies.back(), "run_id");
  if (slot.run.empty()) return RedisFailure{"it does not tell its run_id"};
  slot.standing_at = Clock::now();
  if (options_.on_standing)
    options_.on_standing(standing_of(slot.run, replies[replies.size() - 4], replies[replies.size() - 3]));
  return made;
}

OrRedisFailure<std::vector<RedisReply>> RedisConnectionPool::Session::run(
    std::span<const RedisCommand> commands, std::chrono::microseconds limit) {
  const RedisDeadline deadline = Clock::now() + limit;
  auto answer = slot_->connection->run(commands, deadline);
  const auto* replies = std::get_if<std::vector<RedisReply>>(&answer);
  if (replies && lost_scripts(replies->front())) {
    std::vector<RedisCommand> load;
    connections_->add_scripts(load);
    answer = slot_->connection->run(load, deadline);
    if (std::holds_alternative<std::vector<RedisReply>>(answer))
      answer = slot_->connection->run(commands, deadline);
    else
      std::get<RedisFailure>(answer).may_have_run = false;  // at most the scripts were loaded
  }
  if (std::holds_alternative<RedisFailure>(answer)) drop();
  return answer;
}

}  // namespace troupe
