#pragma once
// A running server small enough to be asked thousands of times: all five actors and the HTTP door over a tiny
// model with random weights, a catalog of twenty items and three users, in a folder that goes when the test
// ends. "steady" and the items "steady-…" are for checks and are never changed by hostile requests.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "deploy/node/box.h"
#include "kernels/checkpoint/model.h"
#include "kernels/testing/test_folder.h"
#include "runtime/actor/metrics.h"
#include "server/http/front_door.h"

namespace troupe::fuzz {

using Settings = std::vector<std::pair<std::string, std::string>>;  // knobs and their values

kernels::DecoderConfig tiny_shape();  // 64 tokens, 96 positions
// A model directory: config.json, model.safetensors, vocab.json and prompt.json (4 tokens in all).
void write_tiny_model(const std::filesystem::path& directory,
                      const kernels::DecoderConfig& shape = tiny_shape(), std::uint64_t seed = 1);

std::vector<PutItem> tiny_items();  // item-0 … item-11, steady-0 … steady-7; each of two tokens
std::vector<PutUser> tiny_users();  // ana, bob, steady

// A configuration of a box on the model in <folder>/model with its data in <folder>/data.
Config tiny_config(const std::filesystem::path& folder, const Settings& settings = {});

struct Reply {
  unsigned status = 0;
  nlohmann::json body;
};

// The model that a box serves: how its directory is written, and the families that there are.
struct ServedModel {
  std::function<void(const std::filesystem::path& directory)> write = [](auto& directory) {
    write_tiny_model(directory);
  };
  deploy::Families families = deploy::all_families();
};

class ServedBox {
 public:
  // `data_dir`: elsewhere than in the box's own folder.
  explicit ServedBox(const Settings& settings = {}, const std::filesystem::path& data_dir = {},
                     const ServedModel& model = {});
  ServedBox(const ServedBox&) = delete;
  ~ServedBox();

  std::uint16_t port() const { return door_->port(); }
  const MetricRegistry& metrics() const { return metrics_; }
  const kernels::TestFolder& folder() const { return folder_; }

  Reply ask(const std::string& method, const std::string& target, const std::string& body = "") const;
  // The scores of steady's eight items by id. Fails the test unless the reply is whole.
  std::vector<std::pair<std::string, double>> steady_scores() const;
  // The server still answers, and with the same scores as at its start.
  void check_steady() const;

  static constexpr std::uint32_t candidates_max = 64;
  static constexpr std::uint32_t body_bytes_max = 64 << 10;

 private:
  kernels::TestFolder folder_;
  Config config_;
  MetricRegistry metrics_;
  std::unique_ptr<deploy::Box> box_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<server::FrontDoor> door_;
  std::vector<std::pair<std::string, double>> steady_at_start_;
};

}  // namespace troupe::fuzz
