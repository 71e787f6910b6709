#pragma once
// Which of several models a request asks: the one that it names, in the body (`model`) or in the path's query
// (?model=NAME, for users, items and reloads), or else the only one that serves such requests. Pure.
//
// Refusals are
//   unknown_model                                    404: no model has that name
//   not_a_ranker, not_a_generator, not_a_scorer      422: the model that is named, or none here, serves such
//   requests which_model                                      400: none is named, and several could be meant
//   wrong_type, malformed_json                       400: the body's `model` is no text, or is there twice
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/identity.h"
#include "server/http/front_door_routes.h"

namespace troupe::server {

struct DoorModel {
  std::string name;
  std::string serves;  // kinds of requests: "rank, score"
  DoorLimits limits;
  ModelText text = {};
  Address router;
};

struct AskedModel {
  const DoorModel* model = nullptr;  // null: no model is asked
  std::string body;                  // of a request that named its model there: blanks stand where it did
  bool in_body = false;
};
std::variant<AskedModel, Refusal> choose_model(const DoorRequest& request, std::span<const DoorModel> models);
// By its name, "" none, and by what it has to serve; null of a box whose one model has no name.
std::variant<const DoorModel*, Refusal> choose_model(const std::string& name, std::string_view kind,
                                                     std::span<const DoorModel> models);

}  // namespace troupe::server
