#pragma once
// Configuration file of a single node that serves several models: sections of settings, as for one
// model, and a list of models, each with a name, a directory and a data folder of its own. Settings
// of the sections model, router, inference and features hold for all models unless a model's
// `settings` override them. A cluster's file (config.h) may have the same list, without data
// folders if users and items are in Redis; a model's settings then override those of a node.
//
//   node: {data_dir: /var/lib/troupe}     # saved blocks, hard state
//   pool: {memory: 16GiB}                 # one pool for all models
//   models:
//     - {name: games, directory: /srv/games, data_dir: /var/lib/troupe-games}
//     - {name: news, directory: /srv/news, data_dir: /var/lib/troupe-news, prompt: news.json,
//        settings: {router: {policy: planner}}}
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace troupe {

struct SingleNodeFile {
  Config config;
  std::vector<NamedModel> models;  // empty = the file lists none; `config` names the only model
};
SingleNodeFile load_single_node(const std::string& path);
SingleNodeFile read_single_node(const std::string& text, const std::string& path);  // `path` is for errors

// Overrides a setting of the file, for the node and all of its models. Throws ConfigError, also for
// a setting that differs between several models.
void override_for_all_models(SingleNodeFile& box, std::string_view setting, std::string_view value);

}  // namespace troupe
