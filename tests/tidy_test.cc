// Reads the tree and fails where the house rules of ARCHITECTURE.md are broken: floors, heavy libraries in
// their one place, nothing impure in decision code, size, orphans, machine paths. The rules are tried on
// planted faults first.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // relative to the root, with '/'
  std::vector<std::string> lines;
};

bool starts_with_any(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](auto& p) { return text.starts_with(p); });
}

bool is_code(const std::string& path) {
  static const std::set<std::string> extensions{".h", ".cc", ".cu", ".cuh"};
  return extensions.contains(fs::path(path).extension().string());
}

// The name inside an include line, or "".
std::string included(const std::string& line) {
  if (!line.starts_with("#include")) return "";
  const std::size_t open = line.find_first_of("<\"");
  if (open == std::string::npos) return "";
  const std::size_t close = line.find_first_of(">\"", open + 1);
  return line.substr(open + 1, close - open - 1);
}

std::string folder_of(const std::string& path) { return path.substr(0, path.find('/')); }
// actors/kv_worker/x.cc → actors/kv_worker: the rooms of actors do not include each other.
std::string room_of(const std::string& path) {
  return folder_of(path) == "actors" ? path.substr(0, path.find('/', 7)) : folder_of(path);
}

std::string floor_fault(const std::string& path, const std::string& header) {
  static const std::map<std::string, std::vector<std::string>> allowed{
      {"kernels", {"kernels/"}},
      {"placement", {"placement/"}},
      {"runtime", {"runtime/"}},
      {"actors", {"kernels/", "placement/", "runtime/"}},
      {"router", {"kernels/", "placement/", "runtime/", "router/"}},
      {"sim", {"placement/", "runtime/", "actors/", "router/", "sim/"}},
  };
  const auto rule = allowed.find(folder_of(path));
  if (rule == allowed.end() || header == "kernels/check.h")
    return "";  // check.h is the one thing all may use
  static const std::vector<std::string> ours{"kernels/", "placement/", "runtime/", "actors/",
                                             "router/",  "sim/",       "deploy/",  "tests/"};
  if (!starts_with_any(header, ours)) return "";
  if (starts_with_any(header, rule->second) || header.starts_with(room_of(path) + "/")) return "";
  return "includes " + header + ", which its floor must not know";
}

std::string library_fault(const std::string& path, const std::string& header) {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> homes{
      {"caf/", {"runtime/caf_"}},
      {"ucp/", {"runtime/ucx_"}},
      {"ucs/", {"runtime/ucx_"}},
      {"rocksdb/", {"runtime/store"}},
      {"hiredis/", {"runtime/redis_"}},
      {"metis", {"placement/graph_partition"}},
      {"cuda", {"kernels/cuda/"}},
      {"dnnl", {"kernels/cpu/"}},
      {"hwy/", {"kernels/cpu/"}},
      {"boost/asio", {"router/front_door", "runtime/link", "runtime/etcd_http"}},
      {"boost/beast", {"router/front_door", "runtime/etcd_http"}},
      {"boost/context", {"kernels/cuda/emulator"}},
      {"capnp/", {"runtime/codec", "runtime/json"}},
      {"kj/", {"runtime/codec", "runtime/json"}},
      {"yaml-cpp/", {"runtime/config"}},
      {"spdlog/", {"runtime/log"}},
  };
  for (const auto& [prefix, places] : homes)
    if (header.starts_with(prefix) && !starts_with_any(path, places))
      return "includes " + header + "; only " + places.front() + "* may";
  return "";
}

// Code that decides: no clocks, threads, chance or environment.
bool decides(const std::string& path) {
  if (path.find("_test.cc") != std::string::npos) return false;
  if (starts_with_any(path, {"placement/", "sim/"})) return true;
  if (path.starts_with("router/")) return !path.starts_with("router/front_door");
  if (path.starts_with("actors/")) return path.find("_port") == std::string::npos;
  return starts_with_any(path, {"runtime/page_pool", "runtime/sim_", "runtime/coordination_state",
                                "runtime/recent_ids", "runtime/planted"});
}

// What stands around the simulated runs, not in them: several at a time, and their wall time and memory.
bool may_use(const std::string& path, const std::string& word) {
  static const std::map<std::string, std::set<std::string>> allowed{
      {"sim/swarm.cc",
       {"<chrono>", "std::chrono", "<thread>", "std::thread", "<mutex>", "std::mutex", "<atomic>"}},
      {"sim/load.cc", {"<chrono>", "std::chrono", "<fstream>", "/proc/"}},
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
  if (is_code(path) && line.find("getenv") != std::string::npos) return "reads the environment";
  return "";
}

std::vector<SourceFile> read_tree(const fs::path& root) {
  static const std::set<std::string> extensions{".h",  ".cc",  ".cu",   ".cuh",   ".md",    ".sh",
                                                ".py", ".txt", ".yaml", ".capnp", ".cmake", ".yml"};
  std::vector<SourceFile> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    const std::string path = fs::relative(it->path(), root).generic_string();
    if (it->is_directory() &&
        (path.starts_with(".") || path.starts_with("build") || path.ends_with("-data") ||
         path == "tests/bench/results"))
      it.disable_recursion_pending();
    if (!it->is_regular_file() || !extensions.contains(it->path().extension().string())) continue;
    SourceFile file{path, {}};
    std::ifstream in(it->path());
    for (std::string line; std::getline(in, line);) file.lines.push_back(line);
    files.push_back(std::move(file));
  }
  return files;
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
    note(i + 1, floor_fault(file.path, header));
    note(i + 1, library_fault(file.path, header));
  }
  if (is_code(file.path) && file.lines.size() > 600) note(file.lines.size(), "more than 600 lines");
  return faults;
}

std::vector<std::string> orphan_headers(const std::vector<SourceFile>& files) {
  std::set<std::string> known;
  for (const SourceFile& file : files)
    for (const std::string& line : file.lines) known.insert(included(line));
  std::vector<std::string> orphans;
  for (const SourceFile& file : files)
    if (file.path.ends_with(".h") && !known.contains(file.path))
      orphans.push_back(file.path + ": nobody includes it");
  return orphans;
}

}  // namespace

TEST_SUITE("tidy") {
  TEST_CASE("planted faults are found") {
    CHECK(floor_fault("kernels/cpu/a.cc", "runtime/core.h") != "");
    CHECK(floor_fault("actors/kv_worker/a.cc", "actors/cache_meta/b.h") != "");
    CHECK(floor_fault("actors/kv_worker/a.cc", "actors/kv_worker/b.h") == "");
    CHECK(floor_fault("runtime/a.cc", "kernels/plan.h") != "");
    CHECK(floor_fault("router/a.cc", "actors/kv_worker/b.h") != "");
    CHECK(floor_fault("sim/a.cc", "actors/kv_worker/b.h") == "");
    CHECK(floor_fault("sim/a.cc", "kernels/check.h") == "");
    CHECK(floor_fault("sim/a.cc", "kernels/plan.h") != "");
    CHECK(floor_fault("sim/a.cc", "deploy/b.h") != "");
    CHECK(floor_fault("runtime/a.cc", "sim/b.h") != "");
    CHECK(floor_fault("router/a.cc", "sim/b.h") != "");
    CHECK(floor_fault("deploy/a.cc", "sim/b.h") == "");
    CHECK(library_fault("actors/kv_worker/a.cc", "caf/all.hpp") != "");
    CHECK(library_fault("runtime/caf_host.cc", "caf/all.hpp") == "");
    CHECK(purity_fault("router/router_core.cc", "auto t = std::chrono::steady_clock::now();") != "");
    CHECK(purity_fault("router/front_door.cc", "#include <chrono>") == "");
    CHECK(purity_fault("runtime/coordination_state.cc", "#include <mutex>") != "");
    CHECK(purity_fault("runtime/file_coordination.cc", "#include <mutex>") == "");
    CHECK(purity_fault("sim/clients.cc", "#include <chrono>") != "");
    CHECK(purity_fault("sim/swarm.cc", "const auto start = std::chrono::steady_clock::now();") == "");
    CHECK(purity_fault("sim/swarm.cc", "auto t = std::chrono::system_clock::now();") != "");
    CHECK(purity_fault("sim/load.cc", "#include <thread>") != "");
    CHECK(text_fault("a.md", "ends in a space ") != "");
    CHECK(text_fault("a.sh", "cd /home/x") != "");
    CHECK(faults_of({"kernels/long.cc", std::vector<std::string>(601, "x")}).size() == 1);
    CHECK(orphan_headers({{"kernels/a.h", {}}, {"kernels/b.cc", {"#include \"kernels/c.h\""}}}).size() == 1);
  }

  TEST_CASE("the tree keeps the rules") {
    const std::vector<SourceFile> files = read_tree(TROUPE_ROOT_DIR);
    CHECK(files.size() > 50);
    std::ostringstream found;
    for (const SourceFile& file : files)
      for (const std::string& fault : faults_of(file)) found << fault << "\n";
    for (const std::string& orphan : orphan_headers(files)) found << orphan << "\n";
    CHECK_MESSAGE(found.str().empty(), found.str());
  }

  TEST_CASE("every room says what it is") {
    for (const char* room :
         {"kernels", "placement", "runtime", "actors", "router", "sim", "deploy", "tests", "tests/sim"})
      CHECK_MESSAGE(fs::exists(fs::path(TROUPE_ROOT_DIR) / room / "README.md"), room);
  }
}
