// `troupe keys`: API keys of the HTTP server, in a file or a Redis. Only hashes of secrets are
// stored; a key is printed once, when it is made.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/node/shared_keys.h"
#include "deploy/reports/table.h"
#include "runtime/config/whole_file.h"
#include "server/auth/api_keys.h"

namespace troupe::deploy {

namespace {

namespace fs = std::filesystem;

struct KeysOptions {
  // `file`: path of the key file, or address of a Redis. Only a Redis uses `cluster`, `login` and
  // `tls`.
  std::string file, id, cluster = "troupe", login;
  TlsClientFiles tls;
  server::ApiKey key;
  bool in_redis() const { return keys_in_redis(file); }
};

server::ApiKeys keys_in(const fs::path& file) {
  if (!fs::exists(file)) return {};
  try {
    return server::ApiKeys::parse(
        read_whole_file(file, server::ApiKeys::file_bytes_max, "a file of troupe keys"));
  } catch (const server::KeysError& error) {
    throw std::runtime_error(file.string() + ":" + error.what());
  }
}

// Locks the file against other writers for its lifetime.
class FileLock {
 public:
  explicit FileLock(const fs::path& file)
      : lock_(::open((file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (lock_ < 0 || ::flock(lock_, LOCK_EX) != 0)
      throw std::runtime_error(file.string() + ".lock: " + std::strerror(errno) +
                               "; expected a writable folder");
  }
  ~FileLock() { ::close(lock_); }
  FileLock(const FileLock&) = delete;

 private:
  const int lock_;
};

// Never writes a file that servers would refuse.
std::string text_of(const server::ApiKeys& keys) {
  std::string text = keys.text();
  try {
    server::ApiKeys::parse(text);
  } catch (const server::KeysError& error) {
    throw std::invalid_argument("the key cannot be made, because its line would be refused: " +
                                std::string(error.what()));
  }
  return text;
}

// Replaces the file atomically: a server may read it at the same time.
void replace(const fs::path& file, const std::string& text) {
  const fs::path next = file.string() + ".next";
  const int to = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = to >= 0 &&
                       ::write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(to) == 0;
  const int error = errno;
  if (to >= 0) ::close(to);
  if (!written || ::rename(next.c_str(), file.c_str()) != 0)
    throw std::runtime_error(file.string() + ": " + std::strerror(written ? errno : error) +
                             "; expected a writable folder");
}

std::string today() {
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  const std::chrono::year_month_day day(days);
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(day.year()),
                static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  return text;
}

// ---- keys in a Redis ----

struct RedisKeys {
  explicit RedisKeys(const KeysOptions& options)
      : address(parse_redis_url(options.file)), cluster(options.cluster) {
    complete(address, options.tls, options.login);
    where = describe(address);
    keys.emplace(RedisApiKeysOptions{.address = address, .cluster = options.cluster});
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(where + ": " + why +
                             "; expected a Redis that can be read and written, and has free memory");
  }
  server::ApiKeys read() {
    auto lines = keys->read();
    if (const auto* failure = std::get_if<RedisFailure>(&lines)) fail(failure->why);
    return *keys_of(std::get<0>(lines), where);
  }
  void put(const server::ApiKey& key) {
    server::ApiKeys one;
    one.add(key);
    std::string line = text_of(one);
    line.pop_back();  // removes the newline
    if (const std::string why = keys->put(key.id, line); !why.empty()) fail(why);
  }
  bool erase(const std::string& id) {
    const auto erased = keys->erase(id);
    if (const auto* failure = std::get_if<RedisFailure>(&erased)) fail(failure->why);
    return std::get<bool>(erased);
  }
  // Returns a warning if this Redis has nothing of the cluster, so that perhaps no server will read the key.
  std::string unknown_cluster() {
    const auto found = keys->clusters();
    const auto* names = std::get_if<std::set<std::string>>(&found);
    if (!names || names->contains(cluster)) return "";
    std::string others;
    for (const std::string& name : *names) others += (others.empty() ? "" : ", ") + name;
    return where + " has neither keys nor data of a cluster named " + cluster +
           (others.empty() ? "" : "; it has those of " + others) +
           ". Servers read only the keys of their cluster.name: give that as --cluster";
  }
  bool is_empty() {
    const auto lines = keys->read();
    return std::holds_alternative<std::map<std::string, std::string>>(lines) && std::get<0>(lines).empty();
  }
  RedisAddress address;
  std::string cluster;
  std::string where;  // address without its login
  std::optional<RedisApiKeys> keys;
};

void put_into_file(const KeysOptions& options, const server::ApiKey& key) {
  const FileLock turn(options.file);
  server::ApiKeys keys = keys_in(options.file);
  keys.add(key);
  replace(options.file, text_of(keys));
}

bool erase_from_file(const KeysOptions& options) {
  const FileLock turn(options.file);
  server::ApiKeys keys = keys_in(options.file);
  const bool there = keys.revoke(options.id);
  if (there) replace(options.file, keys.text());
  return there;
}

// Returns the file, or the Redis address without secrets.
std::string location_of(const KeysOptions& options) {
  return options.in_redis() ? describe(parse_redis_url(options.file)) : options.file;
}
const char* when(const KeysOptions& options) {
  return options.in_redis() ? "within http.api_keys_refresh" : "at SIGHUP";
}

int run_add(const KeysOptions& options) {
  server::ApiKey wanted = options.key;
  if (wanted.scrape && (wanted.admin || wanted.any_tenant || !wanted.tenant.empty()))
    throw std::invalid_argument(
        "--scrape is given with --admin, --any-tenant or --tenant; expected --scrape without them, because "
        "such a key reads metrics and nothing else");
  wanted.made = today();
  const server::NewKey made = server::make_key(wanted);
  const std::string warning = options.in_redis() ? RedisKeys(options).unknown_cluster() : "";
  if (!warning.empty()) std::cerr << "troupe: warning: " << warning << "\n";
  options.in_redis() ? RedisKeys(options).put(made.key) : put_into_file(options, made.key);
  std::cerr << "troupe: key " << made.key.id << " is in " << location_of(options) << "; servers take it "
            << when(options) << ". This is the only time it is shown:\n";
  std::cout << made.text << "\n";
  return 0;
}

int run_list(const KeysOptions& options) {
  Table table({{"id"},
               {"tenant"},
               {"may"},
               {"requests/s", Table::Align::right},
               {"at once", Table::Align::right},
               {"made"}});
  const server::ApiKeys keys = options.in_redis() ? RedisKeys(options).read() : keys_in(options.file);
  for (const auto& [id, key] : keys.all())
    table.row({id, key.tenant.empty() ? "(default)" : key.tenant,
               std::string(key.admin    ? "administer"
                           : key.scrape ? "read metrics"
                                        : "ask") +
                   (key.any_tenant ? " for any tenant" : ""),
               key.rate > 0 ? std::to_string(key.rate) : "",
               key.at_once > 0 ? std::to_string(key.at_once) : "", key.made});
  table.print(std::cout);
  return 0;
}

int run_revoke(const KeysOptions& options) {
  if (!(options.in_redis() ? RedisKeys(options).erase(options.id) : erase_from_file(options)))
    throw std::runtime_error(location_of(options) + ": there is no key " + options.id +
                             "; expected an id of troupe keys list");
  // Servers assume that a Redis without keys has lost them, and keep the last ones.
  if (options.in_redis() && RedisKeys(options).is_empty())
    std::cerr << "troupe: key " << options.id
              << " was revoked and was the last: running servers keep it until another key is added, or "
                 "until they stop\n";
  else
    std::cerr << "troupe: key " << options.id << " was revoked; servers refuse it " << when(options) << "\n";
  return 0;
}

}  // namespace

void add_keys(Command app) {
  auto options = std::make_shared<KeysOptions>();
  Command keys = app.add_command("keys", "Make, list and revoke API keys of the HTTP server (http.api_keys)");
  keys.needs_command();
  const auto of_file = [&](Command command) {
    command
        .add_option("file", options->file,
                    "File of keys, which add creates, or redis://host…; the value of http.api_keys")
        .required();
    command.add_option("--cluster", options->cluster,
                       "With a Redis: name of the cluster (cluster.name); default: troupe");
    command.add_option("--login", options->login, "With a Redis: file with the login (features.login)");
    command.add_option("--authority", options->tls.authority,
                       "With rediss://: file of the certificate authority (features.authority)");
    command.add_option("--certificate", options->tls.certificate,
                       "With rediss://: file of the client certificate (features.certificate)");
    command.add_option("--key", options->tls.key, "With rediss://: file of the client key (features.key)");
    return command;
  };
  Command add = of_file(keys.add_command("add", "Make a key and print it once"));
  add.add_option("--tenant", options->key.tenant,
                 "Tenant of the key's requests; default: the default tenant");
  add.add_flag("--any-tenant", options->key.any_tenant,
               "Let requests name any tenant in a header, for gateways");
  add.add_flag("--admin", options->key.admin,
               "Permit changes of versions and of the catalog, and what shows all tenants: /metrics "
               "and /v1/cluster, which the page at / reads");
  add.add_flag("--scrape", options->key.scrape, "Permit GET /metrics and nothing else");
  add.add_option("--rate", options->key.rate, "Maximum requests per second; 0: http.tenant_rate")
      .between(0.0, 1e6);
  add.add_option("--at-once", options->key.at_once,
                 "Maximum requests in flight; 0: http.tenant_requests_max");
  add.runs([options] { return run_add(*options); });
  of_file(keys.add_command("list", "List the keys, without secrets")).runs([options] {
    return run_list(*options);
  });
  Command revoke = of_file(keys.add_command("revoke", "Revoke a key"));
  revoke.add_option("id", options->id, "Id of the key (troupe keys list)").required();
  revoke.runs([options] { return run_revoke(*options); });
}

}  // namespace troupe::deploy
