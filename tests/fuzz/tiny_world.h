#pragma once
// A running server that is small enough for thousands of requests: all five actors and the HTTP server
// over a tiny model with random weights, a catalog of twenty items and three users, in a folder that is
// removed at the end. The user "steady" and the items "steady-…" are for checks; hostile requests never
// change them.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "deploy/node/local_node.h"
#include "kernels/checkpoint/model.h"
#include "kernels/testing/test_folder.h"
#include "runtime/actor/metrics.h"
#include "server/http/http_server.h"

namespace troupe::fuzz {

using SettingTexts = std::vector<std::pair<std::string, std::string>>;  // names and values

kernels::DecoderConfig tiny_shape();  // 64 tokens, 96 positions
// A model directory: config.json, model.safetensors, vocab.json and prompt.json (4 tokens in all).
void write_tiny_model(const std::filesystem::path& directory,
                      const kernels::DecoderConfig& shape = tiny_shape(), std::uint64_t seed = 1);

std::vector<PutItem> tiny_items();  // item-0 … item-11, steady-0 … steady-7; each of two tokens
std::vector<PutUser> tiny_users();  // ana, bob, steady

// Returns a single node's configuration with the model in <folder>/model and the data in <folder>/data.
Config tiny_config(const std::filesystem::path& folder, const SettingTexts& settings = {});

struct Reply {
  unsigned status = 0;
  nlohmann::json body;
};

// The served model: a function that writes its directory, and the known families.
struct ServedModel {
  std::function<void(const std::filesystem::path& directory)> write = [](auto& directory) {
    write_tiny_model(directory);
  };
  deploy::ModelFamilies families = deploy::all_families();
};

class ServedNode {
 public:
  // `data_dir`: a data folder other than the server's own.
  explicit ServedNode(const SettingTexts& settings = {}, const std::filesystem::path& data_dir = {},
                      const ServedModel& model = {});
  ServedNode(const ServedNode&) = delete;
  ~ServedNode();

  std::uint16_t port() const { return server_->port(); }
  const MetricRegistry& metrics() const { return metrics_; }
  const kernels::TestFolder& folder() const { return folder_; }

  Reply ask(const std::string& method, const std::string& target, const std::string& body = "") const;
  // Returns the scores of steady's eight items by id. Fails the test unless the reply is complete.
  std::vector<std::pair<std::string, double>> steady_scores() const;
  // Checks that the server answers with the same scores as at its start.
  void check_steady() const;

  static constexpr std::uint32_t candidates_max = 64;
  static constexpr std::uint32_t body_bytes_max = 64 << 10;

 private:
  kernels::TestFolder folder_;
  Config config_;
  MetricRegistry metrics_;
  std::unique_ptr<deploy::LocalNode> box_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<server::HttpServer> server_;
  std::vector<std::pair<std::string, double>> steady_at_start_;
};

}  // namespace troupe::fuzz
