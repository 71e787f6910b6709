// Reads YAML configuration files of a node, of a cluster and of a single node with several models.
// Every value is checked; an error names the file, the line and the expected form.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <set>

#include "runtime/config/config_document.h"
#include "runtime/config/model_list.h"
#include "runtime/config/whole_file.h"

namespace troupe {
namespace {

constexpr std::size_t file_bytes_max = 1 << 20;
constexpr std::size_t name_bytes_max = 253;   // of a host name, as in DNS
constexpr std::size_t quoted_bytes_max = 64;  // of a value that an error quotes
constexpr std::size_t model_name_bytes_max = 64;
constexpr std::size_t models_max = 64, models_of_nodes_max = 4096;  // each has its own configuration
constexpr const char* model_keys = "name, directory, data_dir, prompt or settings";

std::string contents(const std::string& path) {
  try {
    return read_whole_file(path, file_bytes_max, "a YAML file");
  } catch (const FileError& error) {
    throw ConfigError(error.what());
  }
}

// Reads a file into a configuration; errors name the file and the line.
class FileReader {
 public:
  // `path` is for errors.
  FileReader(std::string path, Config& config) : path_(std::move(path)), config_(config) {}

  void read(const std::string& text) {
    const YAML::Node document = parse_document(path_, text);
    if (!document.IsNull()) read_map(document, "");  // null = empty, or comments only
  }

  // Reads the sections, then the list `models`, if there is one.
  std::vector<NamedModel> read_single_node(const std::string& text) {
    const YAML::Node document = parse_document(path_, text);
    models_expected_ = true;
    if (document.IsNull()) return {};
    read_map(document, "");
    const YAML::Node list = document["models"];
    if (!list) return {};
    return read_models(list);
  }

  // Reads the sections, then the list `nodes`.
  std::vector<ClusterNode> read_cluster(const std::string& text) {
    const YAML::Node document = parse_document(path_, text);
    if (!document.IsMap())
      fail(document.Mark(), "the file is not a map; expected sections and a list of nodes");
    nodes_expected_ = true;
    read_map(document, "");
    const YAML::Node list = document["nodes"];
    if (!list || !list.IsSequence() || list.size() == 0)
      fail(document.Mark(), "there is no list of nodes; expected `nodes:` with one entry per node");
    std::vector<ClusterNode> nodes;
    for (const auto& entry : list) nodes.push_back(read_node(entry));
    if (const YAML::Node models = document["models"]) {
      if (nodes.size() * models.size() > models_of_nodes_max)
        fail(models.Mark(), std::to_string(models.size()) + " models on " + std::to_string(nodes.size()) +
                                " nodes; expected a product of at most " +
                                std::to_string(models_of_nodes_max));
      for (ClusterNode& node : nodes) {
        FileReader own(path_, node.config);
        own.nodes_expected_ = true;
        node.models = own.read_models(models);
      }
    }
    check_consistency(nodes, list);
    return nodes;
  }

 private:
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) { fail_at(path_, mark, what); }

  // `section` is "" for the whole file. Settings are two levels deep, so deeper levels are not
  // followed.
  void read_map(const YAML::Node& map, const std::string& section) {
    if (!map.IsMap())
      fail(map.Mark(), (section.empty() ? "the file" : section) + " is not a map; expected keys and values");
    for (const auto& entry : map) {
      const YAML::Node &key = entry.first, &value = entry.second;
      if (!key.IsScalar()) fail(key.Mark(), "a key is not a plain word; expected " + known_settings(section));
      const std::string name = section.empty() ? key.Scalar() : section + "." + key.Scalar();
      if (!seen_.insert(name).second) fail(key.Mark(), name + " is given twice; expected it once");
      if (section.empty() && name == "nodes" && nodes_expected_) continue;
      if (section.empty() && name == "models" && (models_expected_ || nodes_expected_)) continue;
      if (section.empty())
        read_section(key, value, name);
      else
        read_setting(key, value, name);
    }
  }

  void read_section(const YAML::Node& key, const YAML::Node& value, const std::string& name) {
    for (const Setting& setting : setting_table()) {
      if (section_of(setting.name) != name) continue;
      if (!value.IsNull()) read_map(value, name);  // null = all keys of the section are commented out
      return;
    }
    if (name == "models")
      fail(key.Mark(),
           "there is a list of models: this file is for `troupe serve`; expected a file of a single model, "
           "or --model and --data-dir");
    if (name == "nodes")
      fail(key.Mark(),
           "there is a list of nodes: this is a cluster's file; expected a single node's file, or `troupe "
           "node --config " +
               path_ + " --name NODE` (and `troupe import --config " + path_ + " --node NODE`)");
    fail(key.Mark(),
         "there is no section " + name.substr(0, quoted_bytes_max) + "; expected " + known_settings(""));
  }

  void read_setting(const YAML::Node& key, const YAML::Node& value, const std::string& name) {
    const Setting* setting = find_setting(name);
    if (setting == nullptr) return at(key, [&] { config_.set(name, ""); });  // refuses an unknown name
    const bool takes_text = setting->kind == SettingKind::text || setting->kind == SettingKind::choice;
    const bool is_plain = value.IsScalar() && value.Tag() != "!";  // "!" is yaml-cpp's tag of quoted text
    const bool wants_quotes_too =
        takes_text || setting->kind == SettingKind::size || setting->kind == SettingKind::duration;
    if (!value.IsScalar())
      fail(key.Mark(), name + " is not a single value; expected " + expected_of(*setting));
    if (!is_plain && !wants_quotes_too)
      fail(value.Mark(), name + " is quoted text; expected " + expected_of(*setting));
    at(value, [&] { config_.set(name, value.Scalar()); });
  }

  // ---- several models, of a single node or of a cluster ----

  std::vector<NamedModel> read_models(const YAML::Node& list) {
    if (!list.IsSequence() || list.size() == 0)
      fail(list.Mark(),
           "models is not a list; expected one entry per model, with name, directory and data_dir");
    if (list.size() > models_max) fail(list.Mark(), "models has more than 64 entries; expected at most 64");
    if (!config_.model.directory.empty())
      fail(list.Mark(),
           "there is model.directory and a list of models; expected each model's directory in the list");
    if (!config_.model.name.empty())
      fail(list.Mark(), "there is model.name and a list of models; expected each model's name in the list");
    std::vector<NamedModel> models;
    for (const auto& entry : list) models.push_back(read_model(entry));
    check_consistency(models, list);
    return models;
  }

  std::string text_of(const YAML::Node& entry, const char* key) {
    const YAML::Node value = entry[key];
    if (!value || !value.IsScalar() || value.Scalar().empty())
      fail(entry.Mark(), std::string("a model has no ") + key + "; expected " + model_keys +
                             "; the first three are required");
    return value.Scalar();
  }

  NamedModel read_model(const YAML::Node& entry) {
    if (!entry.IsMap()) fail(entry.Mark(), std::string("a model is not a map; expected ") + model_keys);
    static const std::set<std::string> known{"name", "directory", "data_dir", "prompt", "settings"};
    std::set<std::string> given;
    for (const auto& part : entry) {
      if (!part.first.IsScalar() || !known.contains(part.first.Scalar()))
        fail(part.first.Mark(), std::string("a model has an unknown key; expected ") + model_keys);
      if (!given.insert(part.first.Scalar()).second)
        fail(part.first.Mark(), part.first.Scalar() + " is given twice; expected it once");
    }
    NamedModel model{text_of(entry, "name"), config_};
    const auto is_plain = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
    if (model.name.size() > model_name_bytes_max || !std::ranges::all_of(model.name, is_plain))
      fail(entry["name"].Mark(), "a model is named " + model.name.substr(0, quoted_bytes_max) +
                                     "; expected at most 64 letters, digits, '.', '_' and '-'");
    model.config.model.directory = text_of(entry, "directory");
    // In a cluster whose users and items are in Redis, models need no data folder.
    const bool in_folder = !nodes_expected_ || config_.features.store.empty() || entry["data_dir"];
    if (in_folder) model.config.node.data_dir = text_of(entry, "data_dir");
    if (entry["prompt"]) model.config.model.prompt = text_of(entry, "prompt");
    if (const YAML::Node settings = entry["settings"]; settings && !settings.IsNull()) {
      refuse_shared(settings);
      FileReader(path_, model.config).read_map(settings, "");
    }
    return model;
  }

  // Refuses settings that all models share in the settings of one model.
  void refuse_shared(const YAML::Node& settings) {
    if (!settings.IsMap()) fail(settings.Mark(), "settings is not a map; expected keys and values");
    static const std::set<std::string> own{"model", "router", "inference", "features"};
    for (const auto& part : settings)
      if (!part.first.IsScalar() || !own.contains(part.first.Scalar()))
        fail(part.first.Mark(),
             "a model's settings may be of sections model, router, inference and features; expected "
             "all others outside the list, for all models together");
    if (const YAML::Node model = settings["model"]; model && model.IsMap())
      for (const char* key : {"directory", "prompt", "name"})
        if (model[key])
          fail(model[key].Mark(),
               std::string(key) + " is in a model's settings; expected it beside the model's name");
  }

  void check_consistency(const std::vector<NamedModel>& models, const YAML::Node& list) {
    std::set<std::string> names, folders;
    const auto normal = [](const std::string& path) {
      return std::filesystem::path(path).lexically_normal().string();
    };
    if (const std::string& own = config_.node.data_dir; !own.empty()) folders.insert(normal(own));
    for (std::size_t i = 0; i < models.size(); ++i) {
      const std::string& folder = models[i].config.node.data_dir;
      if (!names.insert(models[i].name).second)
        fail(list[i].Mark(), "two models are named " + models[i].name + "; expected different names");
      if (list[i]["data_dir"] && !folders.insert(normal(folder)).second)
        fail(list[i].Mark(), "model " + models[i].name + " has its data in " + folder +
                                 ", like another model or the node itself; expected a folder of its own");
    }
  }

  // ---- nodes of a cluster ----

  std::string word(const YAML::Node& entry, const char* key) {
    const YAML::Node value = entry[key];
    if (!value || !value.IsScalar() || value.Scalar().empty())
      fail(entry.Mark(), std::string("a node has no ") + key + "; expected node, name, host, port and roles");
    if (value.Scalar().size() > name_bytes_max)
      fail(value.Mark(), std::string(key) + " is longer than 253 bytes");
    return value.Scalar();
  }

  std::uint32_t number(const YAML::Node& entry, const char* key, std::uint32_t max) {
    const std::string text = word(entry, key);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > max)
      fail(entry[key].Mark(),
           std::string(key) + " is " + text + "; expected a number from 1 to " + std::to_string(max));
    return value;
  }

  ClusterNode read_node(const YAML::Node& entry) {
    if (!entry.IsMap()) fail(entry.Mark(), "a node is not a map; expected node, name, host, port and roles");
    static const std::set<std::string> known{"node", "name", "host", "port", "roles", "settings"};
    for (const auto& part : entry)
      if (!part.first.IsScalar() || !known.contains(part.first.Scalar()))
        fail(part.first.Mark(),
             "a node has an unknown key; expected node, name, host, port, roles or settings");
    ClusterNode node;
    node.node = number(entry, "node", 0xFFFF'FFFF);
    node.name = word(entry, "name");
    if (node.name == "ca") fail(entry["name"].Mark(), "a node is named ca, like the authority's files");
    node.host = word(entry, "host");
    node.port = static_cast<std::uint16_t>(number(entry, "port", 65'535));
    const YAML::Node roles = entry["roles"];
    if (!roles || !roles.IsSequence() || roles.size() == 0)
      fail(entry.Mark(), "a node has no roles; expected a list of router, cache_meta and worker");
    for (const auto& role : roles) node.roles.push_back(read_role(role, node.roles));
    node.config = config_;
    if (const YAML::Node settings = entry["settings"]; settings && !settings.IsNull()) {
      FileReader own(path_, node.config);
      own.read_map(settings, "");
    }
    return node;
  }

  NodeRole read_role(const YAML::Node& value, const std::vector<NodeRole>& others) {
    const auto role = value.IsScalar() ? find_node_role(value.Scalar()) : std::nullopt;
    if (role && std::find(others.begin(), others.end(), *role) == others.end()) return *role;
    fail(value.Mark(), "a role is unknown or given twice; expected router, cache_meta or worker, each once");
  }

  void check_consistency(const std::vector<ClusterNode>& nodes, const YAML::Node& list) {
    std::set<std::uint32_t> numbers;
    std::set<std::string> names, places;
    std::set<NodeRole> roles;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const ClusterNode& node = nodes[i];
      if (!numbers.insert(node.node).second || !names.insert(node.name).second ||
          !places.insert(node.host + ":" + std::to_string(node.port)).second)
        fail(list[i].Mark(), "node " + node.name + " has the number, name or address of another node");
      roles.insert(node.roles.begin(), node.roles.end());
      check_shared(node, nodes[0], list[i]);
    }
    if (roles.size() < 3)
      fail(list.Mark(), "a role has no node; expected at least one router, cache_meta and worker");
  }

  void check_shared(const ClusterNode& node, const ClusterNode& first, const YAML::Node& entry) {
    const ClusterSettings &own = node.config.cluster, &others = first.config.cluster;
    const char* const differs = own.name != others.name                   ? "cluster.name"
                                : own.coordination != others.coordination ? "cluster.coordination"
                                : own.heartbeat != others.heartbeat       ? "cluster.heartbeat"
                                                                          : nullptr;
    if (differs)
      fail(entry.Mark(),
           "node " + node.name + " has a different " + differs + "; expected the same for all nodes");
  }

  template <class Action>
  void at(const YAML::Node& node, Action action) {
    try {
      action();
    } catch (const ConfigError& e) {
      fail(node.Mark(), e.what());
    }
  }

  std::string path_;
  Config& config_;
  std::set<std::string> seen_;
  bool nodes_expected_ = false, models_expected_ = false;
};

}  // namespace

std::vector<ClusterNode> read_cluster(const std::string& text, const std::string& path) {
  Config shared;
  return FileReader(path, shared).read_cluster(text);
}

std::vector<ClusterNode> load_cluster(const std::string& path) { return read_cluster(contents(path), path); }

Config read_config(const std::string& text, const std::string& path) {
  Config config;
  FileReader(path, config).read(text);
  return config;
}

SingleNodeFile read_single_node(const std::string& text, const std::string& path) {
  SingleNodeFile box;
  box.models = FileReader(path, box.config).read_single_node(text);
  return box;
}

SingleNodeFile load_single_node(const std::string& path) { return read_single_node(contents(path), path); }

void override_for_all_models(SingleNodeFile& box, std::string_view setting, std::string_view value) {
  const bool of_each = setting == "model.directory" || setting == "model.prompt" || setting == "model.name";
  if (of_each && !box.models.empty())
    throw ConfigError(std::string(setting) + " differs between models; expected it in the list of models");
  box.config.set(setting, value);
  for (NamedModel& model : box.models)
    if (setting != "node.data_dir") model.config.set(setting, value);
}

Config load_config(const std::string& path) { return read_config(contents(path), path); }

}  // namespace troupe
