#pragma once
// The file of a box that serves several models: sections of knobs, as of one model, and a list of models,
// each with a name, a directory and a data folder of its own. What is said of model, router, inference and
// features holds for all of them, but for what a model's `settings` say otherwise. A cluster's file
// (config.h) may have the same list, whose data folders are left out where users and items are in a Redis;
// then a node's settings come before a model's.
//
//   node: {data_dir: /var/lib/troupe}     # saved blocks, hard state
//   pool: {memory: 16GiB}                 # one pool for all of them
//   models:
//     - {name: games, directory: /srv/games, data_dir: /var/lib/troupe-games}
//     - {name: news, directory: /srv/news, data_dir: /var/lib/troupe-news, prompt: news.json,
//        settings: {router: {policy: planner}}}
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace troupe {

struct BoxFile {
  Config config;
  std::vector<NamedModel> models;  // none: the file lists none, and `config` says which one there is
};
BoxFile load_box(const std::string& path);
BoxFile read_box(const std::string& text, const std::string& path);  // `path`: of the text, for errors

// Sets a knob over the file's word, of the box and of all its models. Throws ConfigError, too, of a knob that
// each of several models has for itself.
void set_of_all(BoxFile& box, std::string_view knob, std::string_view value);

}  // namespace troupe
