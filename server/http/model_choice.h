#pragma once
// Chooses which of several models a request is for: the model named in the body (`model`) or in the
// query (?model=NAME, for users, items and reloads), or else the only model that serves such
// requests. Pure functions.
//
// Refusals are
//   unknown_model                                   404: no model has that name
//   not_a_ranker, not_a_generator, not_a_scorer     422: the named model, or none here, serves such requests
//   which_model                                     400: no model is named, and several are possible
//   wrong_type, malformed_json                      400: the body's `model` is not text, or is given twice
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/identity.h"
#include "server/http/http_routes.h"

namespace troupe::server {

struct ServerModel {
  std::string name;
  std::string serves;  // request kinds, e.g. "rank, score"
  ServerLimits limits;
  ModelText text = {};
  Address router;
};

struct ChosenModel {
  const ServerModel* model = nullptr;  // null = the request is for no model
  std::string body;                    // body of a request that named its model; blanks replace that member
  bool in_body = false;
};
std::variant<ChosenModel, Refusal> choose_model(const HttpRequest& request,
                                                std::span<const ServerModel> models);
// Returns the request's body without `model`, if that is one of these names of the node's one model.
// A faulty body is left to its parser.
ChosenModel without_served_name(const HttpRequest& request, std::span<const std::string> names);
// Chooses by name ("" = none) and by the request kind; null if the node's one model has no name.
std::variant<const ServerModel*, Refusal> choose_model(const std::string& name, std::string_view kind,
                                                       std::span<const ServerModel> models);

}  // namespace troupe::server
