#pragma once
// Single node on the demo world, on the real host or in the simulation: the production actors, codec and
// kernels, driven one request at a time.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "deploy/data/dataset.h"
#include "deploy/node/local_node.h"
#include "runtime/actor/metrics.h"
#include "runtime/testing/store_test_folder.h"

namespace troupe::scenario {

struct DemoWorld {
  std::filesystem::path model, data;
  std::vector<deploy::EvaluationRow> requests;
};
const DemoWorld& demo_world();

// Returns the configuration of a small node on the demo model; `settings` are name=value.
Config node_config(const TestFolder& folder, const std::vector<std::string>& settings = {});

// Imports the demo catalog and users into the node's store.
void import_demo(deploy::LocalNode& box);

enum class World : std::uint8_t { caf, caf_bytes, simulation };  // caf_bytes: every message is encoded

// Running node. `ask` posts one message as a client and returns its answer; several may be posted before.
class RunningNode {
 public:
  RunningNode(World world, const Config& config, bool import, std::uint64_t seed = 1);
  ~RunningNode();

  void post(Message message);    // its id must be unique
  Message answer(RequestId id);  // waits; fails the test after a timeout
  Message ask(Message message);
  Message ask_worker(Message message);  // sent to the inference worker instead of the router
  void set_split(std::uint64_t epoch, std::vector<AreaSplit> areas);  // as the allocator agent would
  void run_for(Duration virtual_time);                                // simulation only
  RankReply rank(RequestId id, const std::string& user, const std::vector<std::string>& candidates,
                 const std::string& policy);
  void wait_until_precomputed();  // or until precomputation stops
  // Waits until the work behind the last answer is done: blocks are committed and the index knows them.
  void settle();
  void flip_bit_of_each_page();  // of the pool; only while no request is in flight
  double metric(Metric metric) const { return metrics_.value(metric); }

 private:
  struct Inbox;
  MetricRegistry metrics_;
  deploy::LocalNode box_;
  std::unique_ptr<Inbox> inbox_;
  std::unique_ptr<Host> host_;
  World world_;
  RequestId status_id_ = RequestId{1} << 40;
};

}  // namespace troupe::scenario
