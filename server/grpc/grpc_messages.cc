// Converts gRPC's messages. What depends on protobuf is in this file and grpc_inference.cc, because it
// compiles slowly.
#include "server/grpc/grpc_messages.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "health.pb.h"          // NOLINT
#include "open_inference.pb.h"  // NOLINT
#include "reflection.pb.h"      // NOLINT
#include "runtime/actor/row_rules.h"
#include "troupe.pb.h"  // NOLINT

namespace troupe::server {
namespace {

namespace proto = google::protobuf;

// ---- requests ----

template <class List, class Field>
void put_all(const List& from, Field* to) {
  to->Assign(from.begin(), from.end());
}
std::vector<std::string> texts(const google::protobuf::RepeatedPtrField<std::string>& field) {
  return {field.begin(), field.end()};
}
std::vector<Token> tokens(const google::protobuf::RepeatedField<std::int32_t>& field) {
  return {field.begin(), field.end()};
}

// Fills the history that a request may have in place of a user.
template <class From, class To>
std::optional<Refusal> take_history(const From& asked, To& request) {
  request.history = texts(asked.history());
  request.history_tokens = tokens(asked.tokens());
  for (const v1::Feature& feature : asked.event_features())
    request.event_features.push_back({feature.name(), {feature.values().begin(), feature.values().end()}});
  request.own_history = asked.own_history() || asked.history_size() > 0 || asked.tokens_size() > 0;
  return read_word(asked.unknown_user(), request.unknown_user);
}

// An option with an unknown word is refused, as in an HTTP body.
using ParsedMessage = std::variant<Message, Refusal>;
ParsedMessage message_of(const v1::RankRequest& asked) {
  RankRequest request{.user = asked.user(),
                      .candidates = texts(asked.candidates()),
                      .top_k = asked.top_k(),
                      .policy = asked.policy()};
  request.budget_us = asked.budget_us();
  request.request_timestamp = asked.request_timestamp();
  if (asked.has_approximate()) request.approximate = asked.approximate();
  request.scenario = asked.scenario();
  request.task = asked.task();
  if (auto fault = read_word(asked.features(), request.features)) return *std::move(fault);
  if (auto fault = read_word(asked.unknown(), request.unknown)) return *std::move(fault);
  if (auto fault = read_word(asked.arrangement(), request.arrangement)) return *std::move(fault);
  if (auto fault = take_history(asked, request)) return *std::move(fault);
  return request;
}

ParsedMessage message_of(const v1::ScoreRequest& asked) {
  ScoreRequest request{.query = tokens(asked.query()),
                       .label_tokens = tokens(asked.label_tokens()),
                       .apply_softmax = asked.apply_softmax()};
  for (const v1::TokenList& item : asked.items()) request.items.push_back({tokens(item.tokens())});
  request.budget_us = asked.budget_us();
  return request;
}

ParsedMessage message_of(const v1::GenerateRequest& asked) {
  GenerateRequest request{.user = asked.user(),
                          .top_k = asked.top_k(),
                          .width = asked.width(),
                          .exclude_seen = asked.exclude_seen()};
  request.allow = texts(asked.allow());
  request.deny = texts(asked.deny());
  request.among_allowed = asked.among_allowed();
  request.budget_us = asked.budget_us();
  request.logprobs = asked.logprobs();
  request.request_timestamp = asked.request_timestamp();
  if (auto fault = read_word(asked.features(), request.features)) return *std::move(fault);
  if (auto fault = take_history(asked, request)) return *std::move(fault);
  if (auto fault = read_word(asked.normalised(), request.normalised)) return *std::move(fault);
  return request;
}

template <class Field>
std::size_t count(const Field& field) {
  return static_cast<std::size_t>(field.size());
}
// A list of a request, named as in its limit.
struct ListSize {
  std::string_view list;
  std::size_t elements = 0;
};
using ListSizes = std::vector<ListSize>;
template <class ProtoMessage>
ListSizes history_sizes_of(const ProtoMessage& asked) {
  std::size_t values = 0;
  for (const v1::Feature& feature : asked.event_features()) values += count(feature.values());
  return {{"history", count(asked.history())},
          {"tokens", count(asked.tokens())},
          {"event_features", count(asked.event_features())},
          {"values", values}};
}
ListSizes sizes_of(const v1::RankRequest& asked) {
  ListSizes sizes = history_sizes_of(asked);
  sizes.push_back({"candidates", count(asked.candidates())});
  return sizes;
}
ListSizes sizes_of(const v1::ScoreRequest& asked) {
  std::size_t tokens = 0;
  for (const v1::TokenList& item : asked.items()) tokens += count(item.tokens());
  return {{"query", count(asked.query())},
          {"label_tokens", count(asked.label_tokens())},
          {"items", count(asked.items())},
          {"tokens", tokens}};
}
ListSizes sizes_of(const v1::GenerateRequest& asked) {
  ListSizes sizes = history_sizes_of(asked);
  sizes.push_back({"allow", count(asked.allow())});
  sizes.push_back({"deny", count(asked.deny())});
  return sizes;
}

// Applies the same list limits as for an HTTP body.
std::optional<Refusal> find_long_list(const ListSizes& sizes, const std::vector<ListLimit>& limits) {
  for (const ListLimit& limit : limits)
    for (const ListSize& size : sizes)
      if (size.list == limit.list && size.elements > limit.max) return refuse_length(limit);
  return std::nullopt;
}

// ---- replies ----

void put(const Timings& from, v1::Timings* to) {
  to->set_features(from.features);
  to->set_lookup(from.lookup);
  to->set_blocks(from.blocks);
  to->set_queue(from.queue);
  to->set_compute(from.compute);
  to->set_total(from.total);
  to->set_pull(from.pull);
  to->set_predicted(from.predicted);
  to->set_turn(from.turn);
}

// Fills the token counts that all prompt-based answers share.
template <class From, class To>
void put_tokens(const From& from, To* to) {
  to->set_tokens_total(from.tokens_total);
  to->set_tokens_computed(from.tokens_computed);
  to->set_tokens_reused(from.tokens_reused);
  to->set_model_version(from.model_version);
  put(from.timings, to->mutable_timings());
}
template <class From, class To>
void put_run(const From& from, To* to) {
  put_tokens(from, to);
  to->set_user(from.user);
  to->set_blocks_reused(from.blocks_reused);
  to->set_blocks_written(from.blocks_written);
  to->set_history_cut(from.history_cut);
  to->set_catalog_version(from.catalog_version);
  to->set_profile_version(from.profile_version);
  to->set_node(from.node);
  to->set_features_stale(from.features_stale);
  to->set_features_missing(from.features_missing);
  to->set_unknown_user(from.unknown_user);
}

void put(const RankReply& from, v1::RankReply* to) {
  put_run(from, to);
  to->set_policy(from.policy);
  to->set_plan(from.plan);
  to->set_arrangement(std::string(word_of(from.arrangement)));
  to->set_approximate(from.approximate);
  for (const RankedItem& item : from.items) {
    v1::RankedItem* const made = to->add_items();
    made->set_id(item.id);
    made->set_title(item.title);
    made->set_score(item.score);
    made->set_probability(item.probability);
    put_all(item.task_scores, made->mutable_task_scores());
  }
  put_all(from.tasks, to->mutable_tasks());
  put_all(from.skipped, to->mutable_skipped());
  put_all(from.in_place, to->mutable_in_place());
}

void put(const ScoreReply& from, v1::ScoreReply* to) {
  put_tokens(from, to);
  for (const ScoreRow& row : from.items) put_all(row.scores, to->add_items()->mutable_scores());
}

void put(const GenerateReply& from, v1::GenerateReply* to) {
  put_run(from, to);
  to->set_reason(from.reason);
  to->set_width(from.width);
  for (const GeneratedItem& item : from.items) {
    v1::GeneratedItem* const made = to->add_items();
    made->set_id(item.id);
    made->set_title(item.title);
    made->set_log_probability(item.log_probability);
    made->set_score(item.score);
    put_all(item.tokens, made->mutable_tokens());
    put_all(item.by_token, made->mutable_token_logprobs());
  }
}

// ---- calls ----

Refusal bad_message(std::string_view name, std::string what) {
  return {RefusalKind::malformed, "bad_message", std::move(what), "message",
          "a message " + std::string(name) + " of troupe.proto, whose strings are UTF-8"};
}

// Calls `visit` with the number of each field of a message, and with its bytes if they have a length before
// them. Returns false if it is not a message.
template <class Visit>
bool walk_fields(std::string_view message, const Visit& visit) {
  proto::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                                 static_cast<int>(message.size()));
  constexpr std::uint32_t varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5;
  for (;;) {
    const std::uint32_t tag = in.ReadTag();
    if (tag == 0) return in.ConsumedEntireMessage();
    const std::uint32_t type = tag & 7;
    std::uint64_t number = 0;
    std::uint32_t length = 0;
    const bool is_whole = type == varint      ? in.ReadVarint64(&number)
                          : type == fixed64   ? in.Skip(8)
                          : type == fixed32   ? in.Skip(4)
                          : type == delimited ? in.ReadVarint32(&length) && length <= message.size() &&
                                                    in.Skip(static_cast<int>(length))
                                              : false;
    if (!is_whole) return false;
    const auto end = static_cast<std::size_t>(in.CurrentPosition());
    visit(static_cast<int>(tag >> 3), message.substr(end - length, length));
  }
}

// Counts a message's fields by number without keeping any. Returns false if it is not a message.
bool count_fields(std::string_view message, std::map<int, std::size_t>& counts) {
  return walk_fields(message, [&](int number, std::string_view) { ++counts[number]; });
}

Refusal given_twice(std::string field) {
  return {RefusalKind::malformed, "bad_message", "a key is given twice", std::move(field), "it once"};
}

// Finds a single field that comes twice in a history's feature. `type`: of the message.
std::optional<Refusal> find_repeated_inside(std::string_view message, const proto::Descriptor& type) {
  const auto* const features = type.FindFieldByName("event_features");
  if (!features) return std::nullopt;
  std::optional<Refusal> found;
  std::size_t index = 0;
  walk_fields(message, [&](int number, std::string_view feature) {
    if (number != features->number() || found) return;
    std::map<int, std::size_t> counts;
    if (count_fields(feature, counts) && counts[v1::Feature::kNameFieldNumber] > 1)
      found = given_twice("event_features[" + std::to_string(index) + "].name");
    ++index;
  });
  return found;
}

template <class ProtoMessage>
Refusal unknown_field(int number) {
  const auto* const field = ProtoMessage::descriptor()->FindFieldByNumber(number);
  return {RefusalKind::malformed, "unknown_field",
          field ? "the field has another type" : "there is no such field",
          field ? field->name() : "field " + std::to_string(number),
          "the fields of " + ProtoMessage::descriptor()->full_name() + " in troupe.proto"};
}

// Finds fields that the parser did not know, or whose wire type is another.
template <class ProtoMessage>
std::optional<Refusal> find_unknown(const ProtoMessage& asked) {
  const proto::UnknownFieldSet& unknown = asked.GetReflection()->GetUnknownFields(asked);
  if (unknown.empty()) return std::nullopt;
  return unknown_field<ProtoMessage>(unknown.field(0).number());
}
std::optional<Refusal> find_unknown_inside(const v1::ScoreRequest& asked) {
  for (const v1::TokenList& item : asked.items())
    if (auto fault = find_unknown(item)) return fault;
  return std::nullopt;
}
template <class ProtoMessage>
std::optional<Refusal> find_unknown_inside(const ProtoMessage& asked) {
  for (const v1::Feature& feature : asked.event_features())
    if (auto fault = find_unknown(feature)) return fault;
  return std::nullopt;
}

// An element takes up to 50 times its bytes once it is parsed, so elements are counted before. The
// largest limit of any model counts here, and the model's own after parsing. A field that the schema does not
// have is refused like an unknown member of a JSON body: a newer client's option is not silently ignored.
template <class ProtoMessage, class RouterMessage>
std::optional<Refusal> find_too_many(const std::map<int, std::size_t>& counts, const GrpcConfig& config) {
  std::vector<ListLimit> limits = list_limits<RouterMessage>(config.limits);
  for (const ServerModel& model : config.models) {
    const std::vector<ListLimit> others = list_limits<RouterMessage>(model.limits);
    for (std::size_t i = 0; i < limits.size(); ++i)
      if (others[i].max > limits[i].max) limits[i] = others[i];
  }
  ListSizes sizes;
  for (const auto& [number, times] : counts) {
    const proto::FieldDescriptor* const field = ProtoMessage::descriptor()->FindFieldByNumber(number);
    if (!field) return unknown_field<ProtoMessage>(number);
    if (field->is_repeated())
      sizes.push_back({field->name(), times});
    else if (times > 1)
      return given_twice(field->name());
  }
  return find_long_list(sizes, limits);
}

template <class Kind, class Reply>
decltype(ShapedRequest::body) reply_as(const std::string& model) {
  return [model](const Message& answer, const AnsweringModel& known,
                 std::int64_t) -> std::variant<std::string, Refusal> {
    const auto* of_kind = std::get_if<Kind>(&answer);
    if (!of_kind)
      return Refusal{RefusalKind::internal, "wrong_answer",
                     "the router answered with the wrong kind of message", "router",
                     "an answer to the request"};
    if (auto other = reject_if_other_model(model, known, of_kind->model_version)) return *other;
    Reply made;
    put(*of_kind, &made);
    return made.SerializeAsString();
  };
}

template <class RouterMessage, class ProtoMessage, class Kind, class Reply>
std::variant<ServerCall, Refusal> read_call(const char* kind, std::string_view message,
                                            const GrpcConfig& config, std::int64_t budget_us) {
  const std::string& name = ProtoMessage::descriptor()->full_name();
  std::map<int, std::size_t> counts;
  if (!count_fields(message, counts)) return bad_message(name, "it is not a message");
  ServerCall call{.kind = kind};
  call.fault = find_too_many<ProtoMessage, RouterMessage>(counts, config);
  if (!call.fault) call.fault = find_repeated_inside(message, *ProtoMessage::descriptor());
  if (call.fault) return call;
  ProtoMessage asked;
  if (!asked.ParseFromArray(message.data(), static_cast<int>(message.size())))
    return bad_message(name, "it cannot be parsed");
  call.model = asked.model();
  call.fault = find_unknown(asked);
  if (!call.fault) call.fault = find_unknown_inside(asked);
  if (call.fault) return call;
  call.fault = find_long_list(sizes_of(asked), list_limits<RouterMessage>(limits_of(call, config)));
  if (call.fault) return call;
  ParsedMessage parsed = message_of(asked);
  if (auto* fault = std::get_if<Refusal>(&parsed)) {
    call.fault = std::move(*fault);
    return call;
  }
  call.fault = reject_values(std::get<RouterMessage>(std::get<Message>(parsed)));
  if (call.fault) return call;
  call.asked = {std::get<Message>(std::move(parsed)), reply_as<Kind, Reply>(call.model)};
  set_budget(call.asked.message, budget_us);
  return call;
}

// ---- reflection ----

namespace reflection = grpc::reflection::v1;

const proto::DescriptorPool& pool() { return *proto::DescriptorPool::generated_pool(); }

void put_error(reflection::ServerReflectionResponse& to, int code, const std::string& text) {
  to.mutable_error_response()->set_error_code(code);
  to.mutable_error_response()->set_error_message(text);
}

void put_file(reflection::ServerReflectionResponse& to, const proto::FileDescriptor* file) {
  constexpr int not_found = 5;
  if (!file) return put_error(to, not_found, "no such file, symbol or extension");
  proto::FileDescriptorProto schema;
  file->CopyTo(&schema);
  to.mutable_file_descriptor_response()->add_file_descriptor_proto(schema.SerializeAsString());
}

const std::array services{v1::RankRequest::descriptor, ::inference::ModelInferRequest::descriptor,
                          grpc::health::v1::HealthCheckRequest::descriptor,
                          reflection::ServerReflectionRequest::descriptor};

void put_services(reflection::ServerReflectionResponse& to) {
  for (const auto& message : services) {
    const proto::FileDescriptor& file = *message()->file();
    for (int i = 0; i < file.service_count(); ++i)
      to.mutable_list_services_response()->add_service()->set_name(file.service(i)->full_name());
  }
}

}  // namespace

void set_budget(Message& message, std::int64_t left_us) {
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.budget_us; })
          if (left_us > 0 && m.budget_us >= 0 && (m.budget_us == 0 || m.budget_us > left_us))
            m.budget_us = left_us;
      },
      message);
}

const ServerLimits& limits_of(const ServerCall& call, const GrpcConfig& config) {
  const auto chosen = choose_model(call.model, call.kind, config.models);
  const auto* const model = std::get_if<const ServerModel*>(&chosen);
  return model && *model ? (*model)->limits : config.limits;
}

std::variant<ServerCall, Refusal> read_grpc_call(GrpcMethod method, std::string_view message,
                                                 const GrpcConfig& config, std::int64_t budget_us) {
  switch (method) {
    case GrpcMethod::rank:
      return read_call<RankRequest, v1::RankRequest, RankReply, v1::RankReply>("rank", message, config,
                                                                               budget_us);
    case GrpcMethod::score:
      return read_call<ScoreRequest, v1::ScoreRequest, ScoreReply, v1::ScoreReply>("score", message, config,
                                                                                   budget_us);
    default:
      return read_call<GenerateRequest, v1::GenerateRequest, GenerateReply, v1::GenerateReply>(
          "generate", message, config, budget_us);
  }
}

std::optional<std::string> read_health_request(std::string_view message) {
  grpc::health::v1::HealthCheckRequest asked;
  if (!asked.ParseFromArray(message.data(), static_cast<int>(message.size()))) return std::nullopt;
  return asked.service();
}

std::string write_health_reply(bool is_serving) {
  grpc::health::v1::HealthCheckResponse reply;
  reply.set_status(is_serving ? grpc::health::v1::HealthCheckResponse::SERVING
                              : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  return reply.SerializeAsString();
}

bool has_health(std::string_view service) {
  return service.empty() || service == "troupe.v1.Troupe" || service == "inference.GRPCInferenceService";
}

std::optional<std::string> answer_reflection(std::string_view message) {
  constexpr int unimplemented = 12;
  reflection::ServerReflectionRequest asked;
  if (!asked.ParseFromArray(message.data(), static_cast<int>(message.size()))) return std::nullopt;
  reflection::ServerReflectionResponse reply;
  reply.set_valid_host(asked.host());
  *reply.mutable_original_request() = asked;
  if (asked.has_file_by_filename())
    put_file(reply, pool().FindFileByName(asked.file_by_filename()));
  else if (asked.has_file_containing_symbol())
    put_file(reply, pool().FindFileContainingSymbol(asked.file_containing_symbol()));
  else if (asked.has_list_services())
    put_services(reply);
  else
    put_error(reply, unimplemented, "extensions are not served: the schemas have none");
  return reply.SerializeAsString();
}

void silence_protobuf() { proto::SetLogHandler(nullptr); }

}  // namespace troupe::server
