#include "runtime/config/log.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace {

constexpr std::chrono::milliseconds patient{60'000};

constexpr const char* small_disk = "256k";

struct Folder : TestFolder {
  using TestFolder::TestFolder;
  std::string file() const { return path() / "troupe.log"; }
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> out;
    std::ifstream in(file());
    for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
};

}  // namespace

TEST_CASE("log: a line is one JSON object with its time in UTC") {
  const std::chrono::system_clock::time_point time(std::chrono::milliseconds(1722996304321));
  const std::vector<LogField> fields{{"user", "a\"b\n\xff"}, {"n", "{}"}};
  CHECK(log_line(time, LogLevel::warning, "n1", "router@1", "unknown_user", fields) ==
        "{\"time\":\"2024-08-07T02:05:04.321Z\",\"level\":\"warning\",\"node\":\"n1\",\"actor\":\"router@1\","
        "\"event\":\"unknown_user\",\"user\":\"a\\\"b\\n\xef\xbf\xbd\",\"n\":\"{}\"}");
  CHECK(log_line(time, LogLevel::debug, "", "", "started", {}) ==
        R"({"time":"2024-08-07T02:05:04.321Z","level":"debug","event":"started"})");
}

TEST_CASE("log: numbers are written as JSON numbers") {
  const std::vector<LogField> fields{{"us", std::uint64_t{1} << 63}, {"left", -3}, {"text", "3"}};
  CHECK(log_line({}, LogLevel::info, "", "", "e", fields) ==
        R"({"time":"1970-01-01T00:00:00.000Z","level":"info","event":"e",)"
        R"("us":9223372036854775808,"left":-3,"text":"3"})");
}

TEST_CASE("log: a line that concerns a known node has its name, in all copies of the log") {
  const Folder folder;
  const Log log({LogLevel::info, "front", folder.file()});
  const Log copy = log;
  const std::vector<LogField> fields{{"node", 3}, {"us", 4}};
  copy(LogLevel::info, "a", "before", fields);
  log.name_nodes({{3, "worker-1"}, {4, "worker-2"}});
  copy(LogLevel::info, "a", "after", fields);
  copy(LogLevel::info, "a", "unknown", std::vector<LogField>{{"node", 9}});
  copy(LogLevel::info, "a", "text", std::vector<LogField>{{"node", "3"}});
  CHECK(log.flush(patient));
  const auto lines = folder.lines();
  REQUIRE(lines.size() == 4);
  CHECK_FALSE(lines[0].contains("node_name"));
  CHECK(lines[1].at("node_name") == "worker-1");
  CHECK(lines[1].at("us") == 4);
  CHECK_FALSE(lines[2].contains("node_name"));
  CHECK_FALSE(lines[3].contains("node_name"));
}

TEST_CASE("log: a full file is renamed, all files have mode 0600, and only a few renamed files are kept") {
  const Folder folder;
  const Log log({LogLevel::info, "", folder.file(), 1000, 2});
  const std::vector<LogField> fields{{"text", std::string(300, 'x')}};
  for (int i = 0; i < 20; ++i) log(LogLevel::info, "a", "e", fields);
  CHECK(log.flush(patient));
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    ++files;
    CHECK(file.file_size() <= 1000);
    CHECK((file.status().permissions() & std::filesystem::perms::all) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  }
  CHECK(files == 3);
  CHECK(std::filesystem::exists(folder.path() / "troupe.1.log"));
}

TEST_CASE("log: lines below the lowest level are dropped, the others are appended unchanged") {
  const Folder folder;
  const std::vector<LogField> fields{{"text", "100% of {} and {0}\r\n"}};
  const Log log({LogLevel::warning, "n1", folder.file()});
  log(LogLevel::info, "router@1", "not_this");
  log(LogLevel::warning, "router@1", "this", fields);
  CHECK(log.flush(patient));
  Log({LogLevel::debug, "n2", folder.file()})(LogLevel::debug, "", "that");
  const auto lines = folder.lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["event"] == "this");
  CHECK(lines[0]["text"] == "100% of {} and {0}\r\n");
  CHECK(lines[1]["node"] == "n2");
}

TEST_CASE("log: the lowest level may change while the log is in use, and the file has mode 0600") {
  const Folder folder;
  const Log log({LogLevel::warning, "", folder.file()});
  log(LogLevel::info, "a", "too early");
  log.set_least(LogLevel::debug);
  log(LogLevel::debug, "a", "heard");
  log.set_least(LogLevel::error);
  log(LogLevel::warning, "a", "too late");
  log(LogLevel::error, "a", "last");
  CHECK(log.flush(patient));
  const auto lines = folder.lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["event"] == "heard");
  CHECK(lines[0]["level"] == "debug");
  CHECK(lines[1]["event"] == "last");
  CHECK(lines[1]["level"] == "error");
  CHECK((std::filesystem::status(folder.file()).permissions() & std::filesystem::perms::all) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("log: a file that was renamed is written until the log reopens its name") {
  const Folder folder;
  for (const std::uint64_t file_bytes_max : {0, 1 << 20}) {
    const std::string renamed = folder.file() + ".old";
    const Log log({LogLevel::info, "", folder.file(), file_bytes_max});
    log(LogLevel::info, "a", "first");
    CHECK(log.flush(patient));
    std::filesystem::rename(folder.file(), renamed);
    log(LogLevel::info, "a", "second");
    CHECK(log.flush(patient));
    CHECK_FALSE(std::filesystem::exists(folder.file()));
    log.reopen();
    log(LogLevel::info, "a", "third");
    CHECK(log.flush(patient));
    CHECK(bytes_of(renamed).find("second") != std::string::npos);
    REQUIRE(folder.lines().size() == 1);
    CHECK(folder.lines()[0]["event"] == "third");
    CHECK((std::filesystem::status(folder.file()).permissions() & std::filesystem::perms::all) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    std::filesystem::remove(folder.file());
  }
}

TEST_CASE("log: a file that cannot be reopened is reported, and the open one stays in use") {
  const Folder folder;
  const Log log({LogLevel::info, "", folder.file()});
  const std::string renamed = folder.file() + ".old";
  std::filesystem::rename(folder.file(), renamed);
  std::filesystem::create_directory(folder.file());
  CHECK_THROWS_AS(log.reopen(), LogError);
  log(LogLevel::info, "a", "kept");
  CHECK(log.flush(patient));
  CHECK(bytes_of(renamed).find("kept") != std::string::npos);
}

TEST_CASE("log: lines of several threads are not mixed") {
  const Folder folder;
  const Log log({LogLevel::info, "", folder.file()});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&log] {
      const std::vector<LogField> fields{{"text", std::string(300, 'x')}};
      for (int i = 0; i < 200; ++i) log(LogLevel::info, "a", "e", fields);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(log.flush(patient));
  CHECK(folder.lines().size() == 800);
}

TEST_CASE("log: a file that cannot be opened is an error that names it") {
  const Folder folder;
  std::ofstream(folder.file()) << "a file, not a folder";
  const std::string below = folder.file() + "/x.log";
  CHECK_THROWS_WITH_AS(Log({LogLevel::info, "", below}), doctest::Contains(("log: " + below + ": ").c_str()),
                       LogError);
}

TEST_CASE("log: every value of the setting node.log_level is a level") {
  CHECK(name_of(LogLevel::debug) == "debug");
  CHECK(name_of(LogLevel::error) == "error");
  Config config;
  CHECK(config.node.log_level == LogLevel::info);
  for (const LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error}) {
    config.set("node.log_level", name_of(level));
    CHECK(config.node.log_level == level);
  }
}

TEST_CASE("log: lines that could not be written are counted, and a line tells of them once it can") {
  const Folder folder(small_disk);
  if (!folder.mounted()) return;  // without the right to mount
  const Log log({LogLevel::info, "n1", folder.file()});
  const std::string filler = (folder.path() / "filler").string();
  std::ofstream(filler) << std::string(1 << 20, 'x');
  const std::vector<LogField> fields{{"text", std::string(10'000, 'x')}};
  for (int i = 0; i < 3; ++i) log(LogLevel::info, "a", "lost", fields);
  CHECK(log.flush(patient));
  CHECK(log.dropped() > 0);
  std::filesystem::remove(filler);
  log(LogLevel::info, "a", "kept");
  CHECK(log.flush(patient));
  CHECK(bytes_of(folder.file()).find("\"event\":\"log_lines_dropped\",\"lines\":") != std::string::npos);
}
