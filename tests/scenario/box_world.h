#pragma once
// A box on the demo world, in either world: the production actors, codec and kernels, and one question at a
// time.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "deploy/data/dataset.h"
#include "deploy/node/box.h"
#include "runtime/actor/metrics.h"
#include "runtime/testing/store_test_folder.h"

namespace troupe::scenario {

struct DemoWorld {
  std::filesystem::path model, data;
  std::vector<deploy::EvaluationRow> requests;
};
const DemoWorld& demo_world();

// A configuration of a small box on the demo model; `settings` are knobs as name=value.
Config box_config(const TestFolder& folder, const std::vector<std::string>& settings = {});

// Reads the demo catalog and users into the box's store.
void import_demo(deploy::Box& box);

enum class World : std::uint8_t { caf, caf_bytes, simulation };  // caf_bytes: every message is encoded

// A running box. `ask` posts one message from the door and returns its answer; several may be posted before.
class RunningBox {
 public:
  RunningBox(World world, const Config& config, bool import, std::uint64_t seed = 1);
  ~RunningBox();

  void post(Message message);    // its id must be unique
  Message answer(RequestId id);  // waits; fails the test after a long time
  Message ask(Message message);
  Message ask_worker(Message message);                                // the inference worker, not the router
  void set_split(std::uint64_t epoch, std::vector<AreaSplit> areas);  // as its allocator agent would
  void run_for(Duration virtual_time);                                // in the simulation
  RankReply rank(RequestId id, const std::string& user, const std::vector<std::string>& candidates,
                 const std::string& policy);
  void wait_until_precomputed();  // or until it stops
  // Returns when what the last answer has left to do is done: blocks are committed and the index knows of
  // them.
  void settle();
  void flip_bit_of_each_page();  // of the pool, while no request is under way
  double metric(Metric metric) const { return metrics_.value(metric); }

 private:
  struct Inbox;
  MetricRegistry metrics_;
  deploy::Box box_;
  std::unique_ptr<Inbox> inbox_;
  std::unique_ptr<Host> host_;
  World world_;
  RequestId status_id_ = RequestId{1} << 40;
};

}  // namespace troupe::scenario
