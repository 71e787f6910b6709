// Reads API keys from a file or a Redis and polls the Redis for changes. Keeps the last valid keys
// while it does not answer.
#include "deploy/node/shared_keys.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>
#include <vector>

#include "deploy/node/features.h"

namespace troupe::deploy {

bool keys_in_redis(const std::string& place) {
  return place.starts_with("redis://") || place.starts_with("rediss://");
}

RedisApiKeysOptions shared_keys_options(const Config& config, const std::string& place) {
  return {.address = redis_address(config.features, place), .cluster = config.cluster.name};
}

namespace {

// Quotes a word for a shell, if it has to be.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) || std::strchr("._-/:@,+=", c); };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

// Anyone who may write into the hash can choose the field's name, so it is escaped and shortened.
std::string shown(const std::string& field) {
  constexpr std::size_t bytes_max = 32;
  std::string text = field.substr(0, bytes_max);
  for (char& c : text)
    if (c <= ' ' || c > '~' || c == '"') c = '?';
  return '"' + text + (field.size() > bytes_max ? "…\"" : "\"");
}

}  // namespace

// The address is shown without its login: a password stays out of logs, and comes from a file.
std::string keys_command(const Config& config, const std::string& place) {
  std::string command = "troupe keys add " + shell_word(describe(parse_redis_url(place))) + " --cluster " +
                        shell_word(config.cluster.name);
  const FeatureSettings& features = config.features;
  const bool has_login = place.find('@') != place.npos;
  if (!features.login.empty() || has_login)
    command += " --login " + (features.login.empty() ? "FILE" : shell_word(features.login));
  for (const auto& [flag, file] : {std::pair{" --authority ", features.authority},
                                   {" --certificate ", features.certificate},
                                   {" --key ", features.key}})
    if (!file.empty()) command += flag + shell_word(file);
  return command;
}

std::shared_ptr<const server::ApiKeys> keys_of(const std::map<std::string, std::string>& lines,
                                               const std::string& where) {
  std::size_t bytes = 0;
  auto keys = std::make_shared<server::ApiKeys>();
  for (const auto& [id, line] : lines) {
    bytes += line.size();
    if (bytes > server::ApiKeys::file_bytes_max)
      throw ConfigError(where + ": the keys have more than 16 MiB; expected at most that");
    try {
      const server::ApiKeys one = server::ApiKeys::parse(line);
      if (one.all().size() != 1 || one.all().begin()->first != id)
        throw server::KeysError("1: the key's id differs from its field");
      keys->add(one.all().begin()->second);
    } catch (const server::KeysError& error) {
      throw ConfigError(where + ": the field " + shown(id) + ", line " + error.what());
    }
  }
  return keys;
}

SharedKeys::SharedKeys(const RedisApiKeysOptions& options, std::chrono::microseconds every, LogSink log,
                       const std::string& made_by)
    : redis_(options), where_(describe(options.address)), every_(every), log_(std::move(log)) {
  if (const std::string why = refresh(); !why.empty())
    throw ConfigError("http.api_keys: " + where_ + ": " + why +
                      "; expected a Redis with keys of the cluster " + options.cluster + " (" + made_by +
                      ")");
}

SharedKeys::~SharedKeys() { stop(); }

void SharedKeys::stop() {
  {
    const std::lock_guard held(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SharedKeys::start(OnChange on_change) {
  thread_ = std::thread([this, on_change = std::move(on_change)] { run(on_change); });
}

SharedKeys::Keys SharedKeys::keys() const {
  const std::lock_guard held(mutex_);
  return keys_;
}

void SharedKeys::read_now() {
  {
    const std::lock_guard held(mutex_);
    asked_ = true;
  }
  changed_.notify_all();
}

double SharedKeys::age_seconds() const {
  const std::lock_guard held(mutex_);
  return std::chrono::duration<double>(Clock::now() - read_at_).count();
}

void SharedKeys::run(const OnChange& on_change) {
  for (;;) {
    {
      std::unique_lock held(mutex_);
      changed_.wait_for(held, every_, [this] { return stopping_ || asked_; });
      if (stopping_) return;
      asked_ = false;
    }
    const Keys before = keys();
    log_change(refresh());
    if (const Keys now = keys(); now != before) on_change(now);
  }
}

// Keeps the keys if the records have not changed.
std::string SharedKeys::refresh() {
  const Clock::time_point began = Clock::now();
  auto answer = redis_.read();
  if (const auto* failure = std::get_if<RedisFailure>(&answer)) return failure->why;
  auto& lines = std::get<0>(answer);
  // A Redis without keys has more likely lost its data than been emptied on purpose.
  if (lines.empty()) return "it has no keys of this cluster";
  Keys keys = this->keys();
  try {
    if (!keys || lines != lines_) keys = keys_of(lines, where_);
  } catch (const ConfigError& error) {
    return error.what();
  }
  lines_ = std::move(lines);
  const std::lock_guard held(mutex_);
  keys_ = std::move(keys);
  read_at_ = began;
  return "";
}

// Logs once when the keys become unavailable and once when they are back.
void SharedKeys::log_change(const std::string& why) {
  const bool away = !why.empty();
  if (std::exchange(away_, away) == away || !log_) return;
  if (away)
    log_(LogLevel::error, "main", "keys_unavailable",
         std::vector<LogField>{{"where", where_}, {"why", why}, {"meanwhile", "as read last"}});
  else
    log_(LogLevel::warning, "main", "keys_available", std::vector<LogField>{{"where", where_}});
}

}  // namespace troupe::deploy
