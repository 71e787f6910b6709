// Reads the tree and fails where a rule of ARCHITECTURE.md is broken: layers, the one place of each heavy
// library, purity of decision code, file size, headers that nothing includes, machine paths. Each rule is
// tried on planted breaches first.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/readers/readers.h"
#include "tests/source_tree.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

using tidy::is_code;
using tidy::read_tree;
using tidy::SourceFile;

bool starts_with_any(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](auto& p) { return text.starts_with(p); });
}

// Returns the name inside an include line, or "".
std::string included(const std::string& line) {
  if (!line.starts_with("#include")) return "";
  const std::size_t open = line.find_first_of("<\"");
  if (open == std::string::npos) return "";
  const std::size_t close = line.find_first_of(">\"", open + 1);
  return line.substr(open + 1, close - open - 1);
}

std::string folder_of(const std::string& path) { return path.substr(0, path.find('/')); }
// Returns the component of a file; the folders of actors/ count as components, as they do not include each
// other: actors/kv_worker/x.cc → actors/kv_worker.
std::string component_of(const std::string& path) {
  return folder_of(path) == "actors" ? path.substr(0, path.find('/', 7)) : folder_of(path);
}

// Helpers of tests stand in a component's folder testing/; tests of that component, and such helpers, may
// include them.
bool is_test(const std::string& path) {
  return path.ends_with("_test.cc") || path.find("/testing/") != std::string::npos;
}

std::string layer_fault(const std::string& path, const std::string& header) {
  static const std::map<std::string, std::vector<std::string>> allowed{
      {"kernels", {"kernels/"}},
      {"placement", {"placement/"}},
      {"runtime", {"runtime/"}},
      {"actors", {"kernels/", "placement/", "runtime/"}},
      {"router", {"kernels/", "placement/", "runtime/", "router/"}},
      {"server", {"kernels/", "runtime/", "server/"}},
      {"sim", {"placement/", "runtime/", "actors/", "router/", "sim/"}},
  };
  // The simulator, the lab and the baselines are not in the program that serves.
  if (starts_with_any(header, {"sim/", "deploy/lab/", "placement/baselines/"}) &&
      !starts_with_any(path, {"sim/", "deploy/lab/", "placement/baselines/", "tests/"}))
    return "includes " + header + ", which only troupe-lab has";
  const auto rule = allowed.find(folder_of(path));
  // Headers that every component may include: the macro that stops the process on a bug, hashes, and plans,
  // which go from the router to the kernels.
  static const std::set<std::string> everywhere{"kernels/base/check.h", "kernels/base/hash.h",
                                                "kernels/base/path_index.h", "kernels/base/plan.h"};
  if (rule == allowed.end() || everywhere.contains(header)) return "";
  static const std::vector<std::string> ours{"kernels/", "placement/", "runtime/", "actors/", "router/",
                                             "server/",  "sim/",       "deploy/",  "tests/"};
  if (!starts_with_any(header, ours)) return "";
  if (header.find("/testing/") != std::string::npos && !is_test(path))
    return "includes " + header + ", a helper of tests";
  if (is_test(path) && folder_of(path) == folder_of(header) &&
      (path.find("/testing/") != std::string::npos || header.find("/testing/") != std::string::npos))
    return "";
  if (starts_with_any(header, rule->second) || header.starts_with(component_of(path) + "/")) return "";
  return "includes " + header + ", which its layer must not include";
}

// Returns the folders that a README lists, in its order: a row of the table begins with | `name/` |.
std::vector<std::string> listed_folders(const SourceFile& readme) {
  std::vector<std::string> folders;
  for (const std::string& line : readme.lines) {
    if (!line.starts_with("| `")) continue;
    const std::size_t end = line.find("/` | ");
    if (end != std::string::npos) folders.push_back(line.substr(3, end - 3));
  }
  return folders;
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// Returns the folder of a file as its component's README has to list it: kernels/cpu/engine/x.cc →
// cpu/engine; kernels/x.cc → "".
std::string inner_folder_of(const std::string& path) {
  const std::string parent = parent_of(path), component = folder_of(path);
  return parent.size() > component.size() ? parent.substr(component.size() + 1) : "";
}

// Checks an include within a component: a folder may include those that the README lists above it, so there
// is no circle. Code beside the README may include all of them.
std::string graph_fault(const std::vector<std::string>& folders, const std::string& path,
                        const std::string& header) {
  const auto at = [&](const std::string& file) {
    return std::find(folders.begin(), folders.end(), inner_folder_of(file)) - folders.begin();
  };
  const auto end = static_cast<std::ptrdiff_t>(folders.size());
  if (!inner_folder_of(path).empty() && at(path) == end) return "is in a folder that no README lists";
  if (header.empty() || header.ends_with(".capnp.h")) return "";
  if (folder_of(path) != folder_of(header) || inner_folder_of(header).empty()) return "";
  if (is_test(path) &&
      (path.find("/testing/") != std::string::npos || header.find("/testing/") != std::string::npos))
    return "";
  if (inner_folder_of(path).empty() || at(header) <= at(path)) return "";
  return "includes " + header + ", which its README lists below it";
}

std::vector<std::string> graph_faults(const std::vector<SourceFile>& files) {
  std::map<std::string, std::vector<std::string>> listed;
  for (const SourceFile& file : files)
    if (file.path == folder_of(file.path) + "/README.md") listed[folder_of(file.path)] = listed_folders(file);
  std::vector<std::string> faults;
  for (const SourceFile& file : files) {
    if (!is_code(file.path) || file.path.starts_with("tests/")) continue;
    const std::vector<std::string>& folders = listed[folder_of(file.path)];
    const std::string lost = graph_fault(folders, file.path, "");
    if (!lost.empty()) faults.push_back(file.path + ": " + lost);
    for (const std::string& line : file.lines)
      if (const std::string fault = graph_fault(folders, file.path, included(line));
          lost.empty() && !fault.empty())
        faults.push_back(file.path + ": " + fault);
  }
  return faults;
}

std::string library_fault(const std::string& path, const std::string& header) {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> homes{
      {"caf/", {"runtime/network/caf_"}},
      {"ucp/", {"runtime/transfer/ucx_"}},
      {"ucs/", {"runtime/transfer/ucx_"}},
      {"rocksdb/", {"runtime/store/", "runtime/features/store_"}},
      {"hiredis/", {"runtime/redis/"}},
      {"pcre2", {"runtime/tokenizer/text_pieces"}},
      {"utf8proc", {"runtime/tokenizer/text_pieces"}},
      {"metis", {"placement/assignment/graph_partition"}},
      {"cuda", {"kernels/cuda/"}},
      {"dnnl", {"kernels/cpu/"}},
      {"hwy/", {"kernels/cpu/"}},
      {"boost/asio",
       {"server/http/http_", "server/testing/", "runtime/network/link", "runtime/coordination/etcd_http"}},
      {"boost/beast", {"server/http/http_", "server/testing/", "runtime/coordination/etcd_http"}},
      {"grpcpp/", {"nothing"}},  // gRPC is served over nghttp2
      {"nghttp2/", {"server/http2/http2_session", "server/testing/"}},
      {"google/protobuf", {"server/grpc/grpc_messages", "server/grpc/grpc_inference"}},
      {"boost/context", {"kernels/cuda/simt/emulator"}},
      {"capnp/", {"runtime/wire/codec", "runtime/wire/json", "runtime/wire/generator/"}},
      {"kj/", {"runtime/wire/codec", "runtime/wire/json"}},
      {"runtime/wire/schema/", {"runtime/wire/codec"}},                    // generated by Cap'n Proto
      {"generated/", {"runtime/actor/messages.h", "runtime/wire/codec"}},  // by runtime/wire/generator
      {"yaml-cpp/", {"runtime/config/config"}},
      {"spdlog/", {"runtime/config/log"}},
  };
  for (const auto& [prefix, places] : homes)
    if (header.starts_with(prefix) && !starts_with_any(path, places))
      return "includes " + header + "; only " + places.front() + "* may";
  return "";
}

// True for code that decides, which uses no clocks, threads, random devices or environment variables.
bool decides(const std::string& path) {
  if (is_test(path)) return false;
  if (starts_with_any(path, {"placement/", "sim/"})) return true;
  if (path.starts_with("router/")) return true;
  if (path.starts_with("server/")) return !starts_with_any(path, {"server/http/", "server/grpc/"});
  if (path.starts_with("actors/")) return path.find("_port") == std::string::npos;
  return starts_with_any(
      path, {"runtime/pool/page_pool", "runtime/pool/row_slab", "runtime/coordination/coordination_state",
             "runtime/actor/recent_ids", "runtime/tokenizer/"});
}

// Exceptions around simulated runs: code that runs several at a time, or takes their wall time and memory.
bool may_use(const std::string& path, const std::string& word) {
  static const std::map<std::string, std::set<std::string>> allowed{
      {"sim/runs/swarm.cc",
       {"<chrono>", "std::chrono", "<thread>", "std::thread", "<mutex>", "std::mutex", "<atomic>"}},
      {"sim/runs/load.cc", {"<chrono>", "std::chrono", "<fstream>", "/proc/"}},
  };
  const auto words = allowed.find(path);
  return words != allowed.end() && words->second.contains(word);
}

std::string purity_fault(const std::string& path, const std::string& line) {
  if (!decides(path)) return "";
  for (const char* word :
       {"<chrono>", "std::chrono", "<thread>", "std::thread", "<mutex>", "std::mutex", "<atomic>", "<random>",
        "random_device", "system_clock", "getenv", "<ctime>", "<fstream>", "/proc/"})
    if (line.find(word) != std::string::npos && !may_use(path, word))
      return std::string("uses ") + word + " in code that decides";
  return "";
}

std::string text_fault(const std::string& path, const std::string& line) {
  if (!line.empty() && (line.back() == ' ' || line.back() == '\t')) return "trailing space";
  if (path == "tests/tidy_test.cc") return "";
  for (const char* word : {"/root/", "/home/", "/work/", "TODO", "FIXME"})
    if (line.find(word) != std::string::npos) return std::string("contains ") + word;
  // A service manager names its socket in the environment only.
  if (is_code(path) && path != "deploy/node/service_notifier.cc" && line.find("getenv") != std::string::npos)
    return "reads the environment";
  // A child process of benchmarks gets the environment of its parent.
  if (is_code(path) && path != "deploy/main.cc" && path != "deploy/lab/bench/child_process.cc" &&
      (line.find("environ;") != std::string::npos || line.find("envp") != std::string::npos))
    return "reads the environment; expected entries that the main function has read";
  if (is_code(path) && !starts_with_any(path, {"tests/", "kernels/cuda/bench/"}) &&
      line.find("hardware_concurrency") != std::string::npos)
    return "counts the cores of the machine; expected usable_cores(), which knows masks and quotas";
  return "";
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool makes_call(const std::string& line, std::string_view call) {
  for (std::size_t at = line.find(call); at != line.npos; at = line.find(call, at + 1)) {
    if (is_word(call.front()) && at > 0 && is_word(line[at - 1])) continue;  // the end of a longer name
    if (call == "::read(" && at > 0 && is_word(line[at - 1])) continue;      // of a class or a namespace
    if (call == "= read(" && !std::islower(static_cast<unsigned char>(line[at + call.size()]))) continue;
    return true;
  }
  return false;
}

bool reads(const SourceFile& file) {
  return std::ranges::any_of(file.lines, [](const std::string& line) {
    if (line.starts_with("#include") || line.find_first_not_of(' ') == line.find("//")) return false;
    return std::ranges::any_of(readers::reading_calls, [&](auto call) { return makes_call(line, call); });
  });
}

// Checks that every file that takes bytes from outside is in the table of readers, so that it is attacked
// there.
std::vector<std::string> reader_faults(const std::vector<SourceFile>& files) {
  std::set<std::string_view> listed;
  for (const auto& reader : readers::reader_files) listed.insert(reader.file);
  std::vector<std::string> faults;
  for (const SourceFile& file : files) {
    if (!file.path.ends_with(".cc") || file.path.starts_with("tests/") || file.path.ends_with("_test.cc"))
      continue;
    if (file.path.starts_with("runtime/wire/generator/")) continue;  // runs in the build, on our own schemas
    const bool is_listed = listed.erase(file.path) > 0;
    if (reads(file) && !is_listed)
      faults.push_back(file.path + ": takes bytes from outside and is not in tests/readers/readers.h");
    if (!reads(file) && is_listed)
      faults.push_back(file.path + ": takes no bytes from outside, but is in tests/readers/readers.h");
  }
  for (const std::string_view path : listed)
    faults.push_back(std::string(path) + ": is in tests/readers/readers.h, but is no file");
  return faults;
}

std::vector<std::string> faults_of(const SourceFile& file) {
  std::vector<std::string> faults;
  auto note = [&](std::size_t line, const std::string& fault) {
    if (!fault.empty()) faults.push_back(file.path + ":" + std::to_string(line) + ": " + fault);
  };
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    note(i + 1, text_fault(file.path, file.lines[i]));
    if (!is_code(file.path)) continue;
    note(i + 1, purity_fault(file.path, file.lines[i]));
    const std::string header = included(file.lines[i]);
    if (header.empty()) continue;
    note(i + 1, layer_fault(file.path, header));
    note(i + 1, library_fault(file.path, header));
  }
  if (is_code(file.path) && file.lines.size() > 800) note(file.lines.size(), "more than 800 lines");
  return faults;
}

std::vector<std::string> orphan_headers(const std::vector<SourceFile>& files) {
  std::set<std::string> known;
  for (const SourceFile& file : files)
    for (const std::string& line : file.lines) known.insert(included(line));
  std::vector<std::string> orphans;
  for (const SourceFile& file : files)
    if (file.path.ends_with(".h") && !known.contains(file.path))
      orphans.push_back(file.path + ": no file includes it");
  return orphans;
}

}  // namespace

TEST_SUITE("tidy") {
  TEST_CASE("tidy: planted breaches are found") {
    CHECK(layer_fault("kernels/cpu/a.cc", "runtime/actor/core.h") != "");
    CHECK(layer_fault("actors/kv_worker/a.cc", "actors/cache_meta/b.h") != "");
    CHECK(layer_fault("actors/kv_worker/a.cc", "actors/kv_worker/b.h") == "");
    CHECK(layer_fault("runtime/a.cc", "kernels/base/plan.h") == "");
    CHECK(layer_fault("runtime/a.cc", "kernels/base/errors.h") != "");
    CHECK(layer_fault("router/a.cc", "actors/kv_worker/b.h") != "");
    CHECK(layer_fault("sim/a.cc", "actors/kv_worker/b.h") == "");
    CHECK(layer_fault("sim/a.cc", "kernels/base/check.h") == "");
    CHECK(layer_fault("sim/a.cc", "kernels/base/errors.h") != "");
    CHECK(layer_fault("sim/a.cc", "deploy/b.h") != "");
    CHECK(layer_fault("runtime/a.cc", "sim/b.h") != "");
    CHECK(layer_fault("router/a.cc", "sim/b.h") != "");
    CHECK(layer_fault("deploy/a.cc", "sim/b.h") != "");
    CHECK(layer_fault("deploy/program.cc", "deploy/lab/commands/b.h") != "");
    CHECK(layer_fault("deploy/node/a.cc", "placement/baselines/b.h") != "");
    CHECK(layer_fault("deploy/lab/a.cc", "sim/b.h") == "");
    CHECK(layer_fault("sim/a.cc", "placement/baselines/b.h") == "");
    const std::vector<std::string> folders = listed_folders(
        {"kernels/README.md", {"| folder | purpose |", "| `base/` | x |", "| `cpu/engine/` | y |"}});
    CHECK(folders == std::vector<std::string>{"base", "cpu/engine"});
    CHECK(graph_fault(folders, "kernels/cpu/engine/a.cc", "kernels/base/b.h") == "");
    CHECK(graph_fault(folders, "kernels/base/a.cc", "kernels/cpu/engine/b.h") != "");
    CHECK(graph_fault(folders, "kernels/base/a_test.cc", "kernels/cpu/engine/b.h") != "");
    CHECK(graph_fault(folders, "kernels/base/a.cc", "kernels/new/b.h") != "");
    CHECK(graph_fault(folders, "kernels/new/a.cc", "") != "");
    CHECK(graph_fault(folders, "kernels/a.cc", "kernels/cpu/engine/b.h") == "");
    CHECK(graph_fault(folders, "router/a.cc", "kernels/cpu/engine/b.h") == "");
    CHECK(graph_faults({{"sim/README.md", {"| `a/` | x |", "| `b/` | y |"}},
                        {"sim/a/a.cc", {"#include \"sim/b/b.h\""}},
                        {"sim/c/c.cc", {}}})
              .size() == 2);
    CHECK(library_fault("actors/kv_worker/a.cc", "caf/all.hpp") != "");
    CHECK(library_fault("runtime/network/caf_host.cc", "caf/all.hpp") == "");
    CHECK(library_fault("placement/a.cc", "generated/message_structs.h") != "");
    CHECK(library_fault("runtime/actor/messages.h", "generated/message_structs.h") == "");
    CHECK(library_fault("runtime/host/a.cc", "runtime/wire/schema/serving.capnp.h") != "");
    CHECK(purity_fault("router/router_core.cc", "auto t = std::chrono::steady_clock::now();") != "");
    CHECK(purity_fault("server/http/http_server.cc", "#include <chrono>") == "");
    CHECK(purity_fault("runtime/coordination/coordination_state.cc", "#include <mutex>") != "");
    CHECK(purity_fault("runtime/coordination/file_coordination.cc", "#include <mutex>") == "");
    CHECK(purity_fault("sim/cluster/clients.cc", "#include <chrono>") != "");
    CHECK(purity_fault("sim/runs/swarm.cc", "const auto start = std::chrono::steady_clock::now();") == "");
    CHECK(purity_fault("sim/runs/swarm.cc", "auto t = std::chrono::system_clock::now();") != "");
    CHECK(purity_fault("sim/runs/load.cc", "#include <thread>") != "");
    for (const char* line :
         {"  got = ::read(file, to, 5);", "const auto n = read(fd, &x, 8);", "std::ifstream in(path);",
          "if (recv(s, b, 1, 0) > 0)", "http::async_read(stream, buffer, parser, note);"})
      CHECK(reads({"a.cc", {line}}));
    for (const char* line : {"auto now = read();", "spread(x)", "Got Connection::read(bool joined) {",
                             "// std::ifstream", "store_.read(column, key, use)", "#include <ifstream>"})
      CHECK_FALSE(reads({"a.cc", {line}}));
    CHECK(reader_faults({}).size() == std::size(readers::reader_files));
    CHECK(reader_faults({{"a/new.cc", {"std::ifstream in(path);"}}}).size() ==
          1 + std::size(readers::reader_files));
    CHECK(text_fault("a.md", "ends in a space ") != "");
    CHECK(text_fault("a.sh", "cd /home/x") != "");
    CHECK(text_fault("deploy/a.cc", "n = std::thread::hardware_concurrency();") != "");
    CHECK(faults_of({"kernels/long.cc", std::vector<std::string>(801, "x")}).size() == 1);
    CHECK(orphan_headers({{"kernels/a.h", {}}, {"kernels/b.cc", {"#include \"kernels/c.h\""}}}).size() == 1);
  }

  TEST_CASE("tidy: the tree keeps the rules") {
    const std::vector<SourceFile> files = read_tree(TROUPE_ROOT_DIR);
    CHECK(files.size() > 50);
    std::ostringstream found;
    for (const SourceFile& file : files)
      for (const std::string& fault : faults_of(file)) found << fault << "\n";
    for (const std::string& orphan : orphan_headers(files)) found << orphan << "\n";
    for (const std::string& fault : graph_faults(files)) found << fault << "\n";
    for (const std::string& fault : reader_faults(files)) found << fault << "\n";
    CHECK_MESSAGE(found.str().empty(), found.str());
  }

  TEST_CASE("tidy: every component has a README") {
    for (const char* component : {"kernels", "placement", "runtime", "actors", "router", "server", "sim",
                                  "deploy", "tests", "tests/sim"})
      CHECK_MESSAGE(fs::exists(fs::path(TROUPE_ROOT_DIR) / component / "README.md"), component);
  }
}

}  // namespace troupe
