// Converts messages of the Open Inference Protocol. It stands beside grpc_messages.cc because both compile
// slowly: they include protobuf.
#include "server/grpc/grpc_inference.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "open_inference.pb.h"  // NOLINT
#include "runtime/wire/json_text.h"
#include "server/formats/inference_protocol.h"
#include "server/formats/json_tree.h"
#include "server/http/dialect_routes.h"

namespace troupe::server {
namespace {

namespace proto = google::protobuf;
namespace oip = ::inference;

// ---- bytes against their schema ----

Refusal bad_message(const proto::Descriptor& type, std::string what, std::string where = "message") {
  return {RefusalKind::malformed, "bad_message", std::move(what), std::move(where),
          "a message " + type.full_name() + ", whose strings are UTF-8"};
}

enum WireType : std::uint32_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

WireType wire_type(const proto::FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case proto::FieldDescriptor::CPPTYPE_DOUBLE:
      return fixed64;
    case proto::FieldDescriptor::CPPTYPE_FLOAT:
      return fixed32;
    case proto::FieldDescriptor::CPPTYPE_STRING:
    case proto::FieldDescriptor::CPPTYPE_MESSAGE:
      return delimited;
    default:
      return varint;
  }
}

std::size_t packed_elements(std::string_view bytes, WireType type) {
  if (type == fixed64) return bytes.size() / 8;
  if (type == fixed32) return bytes.size() / 4;
  return static_cast<std::size_t>(
      std::ranges::count_if(bytes, [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; }));
}

// Checks a message at every depth, as a strict reader of JSON does: each field is one of the schema, and has
// its type; a single field, or one of a choice, comes once. Counts values, because an element takes up to 50
// times its bytes once it is parsed.
class SchemaCheck {
 public:
  explicit SchemaCheck(std::size_t values_max) : values_max_(values_max) {}

  std::optional<Refusal> check(std::string_view bytes, const proto::Descriptor& type) {
    proto::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
    std::map<const void*, std::size_t> times;  // by field or choice
    for (;;) {
      const std::uint32_t tag = in.ReadTag();
      if (tag == 0 && in.ConsumedEntireMessage()) return std::nullopt;
      if (tag == 0) return bad_message(type, "it is not a message");
      const auto* const field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
      if (!field) return unknown_field(type, "there is no such field", "field " + std::to_string(tag >> 3));
      const std::uint32_t wire = tag & 7;
      const bool is_packed = field->is_packable() && wire == delimited;
      if (!is_packed && wire != wire_type(*field))
        return unknown_field(type, "the field has another type", field->name());
      std::string_view value;
      if (!read_value(in, bytes, wire, value)) return bad_message(type, "it is not a message");
      const auto* const choice = field->real_containing_oneof();
      const std::size_t nth = times[choice ? static_cast<const void*>(choice) : field]++;
      if (!field->is_repeated() && nth > 0) return bad_message(type, "a key is given twice", field->name());
      if (field->is_map()) ++map_entries_;
      values_ += is_packed ? packed_elements(value, wire_type(*field)) : 1;
      if (values_ > values_max_) return too_many_values();
      if (field->message_type())
        if (auto fault = check(value, *field->message_type())) return within(*field, nth, *std::move(fault));
    }
  }
  std::size_t map_entries() const { return map_entries_; }  // at all depths
  Refusal too_many_values() const {
    return {RefusalKind::too_large, "too_many_values",
            "the message has more than " + std::to_string(values_max_) + " values", "inputs",
            "a shorter list"};
  }

 private:
  static bool read_value(proto::io::CodedInputStream& in, std::string_view bytes, std::uint32_t wire,
                         std::string_view& value) {
    std::uint64_t number = 0;
    std::uint32_t length = 0;
    if (wire == varint) return in.ReadVarint64(&number);
    if (wire == fixed64) return in.Skip(8);
    if (wire == fixed32) return in.Skip(4);
    if (!in.ReadVarint32(&length)) return false;
    const auto at = static_cast<std::size_t>(in.CurrentPosition());
    if (length > bytes.size() - at) return false;
    value = bytes.substr(at, length);
    return in.Skip(static_cast<int>(length));
  }
  static Refusal unknown_field(const proto::Descriptor& type, std::string what, std::string where) {
    return {RefusalKind::malformed, "unknown_field", std::move(what), std::move(where),
            "the fields of " + type.full_name()};
  }
  static Refusal within(const proto::FieldDescriptor& field, std::size_t nth, Refusal fault) {
    if (fault.code == "too_many_values") return fault;
    const std::string index = field.is_repeated() ? "[" + std::to_string(nth) + "]" : "";
    fault.where = field.name() + index + (fault.where == "message" ? "" : "." + fault.where);
    return fault;
  }

  std::size_t values_max_, values_ = 0, map_entries_ = 0;
};

template <class ProtoMessage>
std::variant<ProtoMessage, Refusal> parse(std::string_view message, SchemaCheck& schema) {
  const proto::Descriptor& type = *ProtoMessage::descriptor();
  if (auto fault = schema.check(message, type)) return *std::move(fault);
  ProtoMessage parsed;
  if (!parsed.ParseFromArray(message.data(), static_cast<int>(message.size())))
    return bad_message(type, "it cannot be parsed");
  return parsed;
}

// ---- tensors of a request: these functions throw Refusal ----

// A datatype, the field of InferTensorContents that has its data, and the bytes of a raw element; 0 = each
// has its length before it.
struct Datatype {
  std::string_view name;
  const char* field;
  std::size_t bytes;
};
constexpr std::array datatypes{
    Datatype{"BOOL", "bool_contents", 1},     Datatype{"INT8", "int_contents", 1},
    Datatype{"INT16", "int_contents", 2},     Datatype{"INT32", "int_contents", 4},
    Datatype{"INT64", "int64_contents", 8},   Datatype{"UINT8", "uint_contents", 1},
    Datatype{"UINT16", "uint_contents", 2},   Datatype{"UINT32", "uint_contents", 4},
    Datatype{"UINT64", "uint64_contents", 8}, Datatype{"FP32", "fp32_contents", 4},
    Datatype{"FP64", "fp64_contents", 8},     Datatype{"BYTES", "bytes_contents", 0}};

const Datatype& datatype_of(const InferTensor& tensor) {
  const auto found = std::ranges::find(datatypes, tensor.datatype, &Datatype::name);
  if (found == datatypes.end())
    tree_fault("wrong_type", tensor.name + " has the datatype " + tensor.datatype, tensor.where + ".datatype",
               "BYTES or INT64");
  return *found;
}

void append_text(std::string text, InferTensor& to) {
  if (!is_utf8(text)) {
    const std::string where = to.data_where + "[" + std::to_string(to.data.size()) + "]";
    tree_fault("wrong_type", where + " is not UTF-8", where, "text in UTF-8");
  }
  to.data.emplace_back(std::move(text));
}

void append_element(const oip::InferTensorContents& from, const proto::FieldDescriptor* field, int i,
                    InferTensor& to) {
  const proto::Reflection& values = *oip::InferTensorContents::GetReflection();
  switch (field->cpp_type()) {
    case proto::FieldDescriptor::CPPTYPE_BOOL:
      return void(to.data.emplace_back(values.GetRepeatedBool(from, field, i)));
    case proto::FieldDescriptor::CPPTYPE_INT32:
      return void(to.data.emplace_back(values.GetRepeatedInt32(from, field, i)));
    case proto::FieldDescriptor::CPPTYPE_INT64:
      return void(to.data.emplace_back(values.GetRepeatedInt64(from, field, i)));
    case proto::FieldDescriptor::CPPTYPE_UINT32:
      return void(to.data.emplace_back(values.GetRepeatedUInt32(from, field, i)));
    case proto::FieldDescriptor::CPPTYPE_UINT64:
      return void(to.data.emplace_back(values.GetRepeatedUInt64(from, field, i)));
    case proto::FieldDescriptor::CPPTYPE_FLOAT:
      return void(to.data.emplace_back(values.GetRepeatedFloat(from, field, i)));
    case proto::FieldDescriptor::CPPTYPE_DOUBLE:
      return void(to.data.emplace_back(values.GetRepeatedDouble(from, field, i)));
    default:
      return append_text(values.GetRepeatedString(from, field, i), to);
  }
}

void read_contents(const oip::InferTensorContents& contents, InferTensor& to) {
  const Datatype& datatype = datatype_of(to);
  const std::string at = to.where + ".contents";
  std::vector<const proto::FieldDescriptor*> given;
  oip::InferTensorContents::GetReflection()->ListFields(contents, &given);
  for (const auto* field : given)
    if (field->name() != datatype.field)
      tree_fault("wrong_type", to.name + " has the datatype " + to.datatype, at + "." + field->name(),
                 at + "." + datatype.field);
  to.data_where = at + "." + datatype.field;
  if (given.empty()) return;
  const int elements = oip::InferTensorContents::GetReflection()->FieldSize(contents, given.front());
  for (int i = 0; i < elements; ++i) append_element(contents, given.front(), i, to);
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

nlohmann::json raw_number(std::string_view bytes, const Datatype& datatype) {
  const std::uint64_t value = little_endian(bytes);
  if (datatype.name == "FP64") return std::bit_cast<double>(value);
  if (datatype.name == "FP32") return std::bit_cast<float>(static_cast<std::uint32_t>(value));
  if (datatype.name == "BOOL") return value != 0;
  if (datatype.name.starts_with("UINT")) return value;
  const std::size_t unused = 64 - 8 * bytes.size();
  return static_cast<std::int64_t>(value << unused) >> unused;
}

// Reads at most one element more than the shape has.
void read_raw(std::string_view bytes, std::uint64_t elements, InferTensor& to) {
  constexpr std::size_t length_bytes = 4;
  const Datatype& datatype = datatype_of(to);
  const auto cut_off = [&] {
    tree_fault("wrong_type", "the data ends within an element", to.data_where,
               "whole elements of " + to.datatype);
  };
  while (!bytes.empty() && to.data.size() <= elements) {
    std::size_t length = datatype.bytes;
    if (length == 0) {
      if (bytes.size() < length_bytes) cut_off();
      length = little_endian(bytes.substr(0, length_bytes));
      bytes.remove_prefix(length_bytes);
    }
    if (bytes.size() < length) cut_off();
    const std::string_view element = bytes.substr(0, length);
    if (datatype.bytes == 0)
      append_text(std::string(element), to);
    else
      to.data.push_back(raw_number(element, datatype));
    bytes.remove_prefix(length);
  }
}

// `raw`: null = the data is in the tensor.
InferTensor tensor_of(const oip::ModelInferRequest::InferInputTensor& input, std::size_t index,
                      const std::string* raw, const SchemaCheck& schema, std::size_t values_max) {
  const std::string nth = "[" + std::to_string(index) + "]";
  InferTensor tensor{input.name(), input.datatype(), "inputs" + nth, "raw_input_contents" + nth};
  if (!input.parameters().empty())
    tree_fault("unknown_field", "the parameter is unknown",
               tensor.where + ".parameters." + input.parameters().begin()->first, "none");
  const auto missing = [&](const char* what) {
    tree_fault("missing_field", tensor.where + " has no " + what, tensor.where + "." + what,
               "a complete tensor");
  };
  if (tensor.name.empty()) missing("name");
  if (tensor.datatype.empty()) missing("datatype");
  const std::uint64_t elements = shape_elements(
      std::vector<std::int64_t>(input.shape().begin(), input.shape().end()), tensor.where + ".shape");
  if (raw && input.has_contents())
    tree_fault("wrong_type", "the data is given twice", tensor.where + ".contents",
               "contents or raw_input_contents");
  if (!raw && !input.has_contents() && elements > 0) missing("contents");
  if (raw && elements > values_max) throw schema.too_many_values();
  raw ? read_raw(*raw, elements, tensor) : read_contents(input.contents(), tensor);
  reject_if_other_size(elements, tensor);
  return tensor;
}

nlohmann::json value_of(const oip::InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case oip::InferParameter::kBoolParam:
      return parameter.bool_param();
    case oip::InferParameter::kInt64Param:
      return parameter.int64_param();
    case oip::InferParameter::kStringParam:
      return parameter.string_param();
    case oip::InferParameter::kDoubleParam:
      return parameter.double_param();
    case oip::InferParameter::kUint64Param:
      return parameter.uint64_param();
    default:
      return nullptr;
  }
}

std::size_t map_entries(const oip::ModelInferRequest& asked) {
  std::size_t entries = asked.parameters().size();
  for (const auto& input : asked.inputs()) entries += input.parameters().size();
  for (const auto& output : asked.outputs()) entries += output.parameters().size();
  return entries;
}

void reject_form(const oip::ModelInferRequest& asked, const SchemaCheck& schema) {
  if (map_entries(asked) != schema.map_entries())
    throw bad_message(*asked.GetDescriptor(), "a parameter is given twice", "parameters");
  if (asked.model_name().empty())
    tree_fault("missing_field", "the request has no model_name", "model_name", "a model of /v1/models");
  if (asked.inputs().empty())
    tree_fault("missing_field", "the request has no inputs", "inputs", "a list of tensors");
  if (asked.inputs_size() > static_cast<int>(infer_inputs_max))
    throw refuse_length({"inputs", infer_inputs_max, "the most of any model", "inputs"});
  const int raw = asked.raw_input_contents_size();
  if (raw != 0 && raw != asked.inputs_size())
    tree_fault("wrong_type",
               "there are " + std::to_string(raw) + " raw contents and " +
                   std::to_string(asked.inputs_size()) + " inputs",
               "raw_input_contents", "one for each input, or none");
}

InferParts parts_of(const oip::ModelInferRequest& asked, const SchemaCheck& schema, std::size_t values_max) {
  reject_form(asked, schema);
  InferParts parts{.id = asked.id()};
  for (int i = 0; i < asked.inputs_size(); ++i) {
    const bool is_raw = asked.raw_input_contents_size() > 0;
    parts.inputs.push_back(tensor_of(asked.inputs(i), static_cast<std::size_t>(i),
                                     is_raw ? &asked.raw_input_contents(i) : nullptr, schema, values_max));
  }
  for (const auto& output : asked.outputs()) {
    const std::string where = "outputs[" + std::to_string(parts.outputs.size()) + "]";
    if (!output.parameters().empty())
      tree_fault("unknown_field", "the parameter is unknown",
                 where + ".parameters." + output.parameters().begin()->first, "none");
    parts.outputs.push_back(output.name());
  }
  for (const auto& [name, parameter] : asked.parameters()) parts.parameters[name] = value_of(parameter);
  return parts;
}

// ---- answers ----

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

std::string raw_data(const InferOutput& output) {
  std::string raw;
  for (const std::string& text : output.texts) raw += little_endian(text.size(), 4) + text;
  for (const double number : output.numbers) raw += little_endian(std::bit_cast<std::uint64_t>(number), 8);
  return raw;
}

std::string infer_message(const InferRequest& asked, const Message& reply, const std::string& model,
                          bool is_raw) {
  oip::ModelInferResponse made;
  made.set_model_name(model);
  made.set_model_version(infer_version(reply));
  made.set_id(asked.id);
  if (const std::string word = infer_unknown_user(reply); !word.empty())
    (*made.mutable_parameters())["unknown_user"].set_string_param(word);
  for (const InferOutput& output : infer_outputs(asked, reply)) {
    auto* const tensor = made.add_outputs();
    tensor->set_name(output.name);
    tensor->set_datatype(output.datatype);
    tensor->add_shape(static_cast<std::int64_t>(output.size()));
    if (is_raw) {
      made.add_raw_output_contents(raw_data(output));
      continue;
    }
    auto& contents = *tensor->mutable_contents();
    for (const std::string& text : output.texts) contents.add_bytes_contents(text);
    contents.mutable_fp64_contents()->Add(output.numbers.begin(), output.numbers.end());
  }
  return made.SerializeAsString();
}

bool is_answer_to(const InferRequest& asked, const Message& reply) {
  return std::holds_alternative<RankRequest>(asked.request) ? std::holds_alternative<RankReply>(reply)
                                                            : std::holds_alternative<GenerateReply>(reply);
}

ShapedRequest shaped(InferRequest asked, std::string named, bool is_raw, std::int64_t budget_us) {
  Message message = std::visit([](auto& request) { return Message{request}; }, asked.request);
  set_budget(message, budget_us);
  OwnNames names = asked.names;
  return {std::move(message),
          [asked = std::move(asked), named = std::move(named), is_raw](
              const Message& reply, const AnsweringModel& model,
              std::int64_t) -> std::variant<std::string, Refusal> {
            if (!is_answer_to(asked, reply)) return other_answer();
            if (auto other = reject_if_other_model(named, model, infer_version(reply))) return *other;
            return infer_message(asked, reply, named, is_raw);
          },
          std::move(names)};
}

template <class ProtoMessage>
std::variant<ModelQuestion, Refusal> question_of(std::string_view message, bool ready) {
  SchemaCheck schema(SIZE_MAX);
  auto parsed = parse<ProtoMessage>(message, schema);
  if (auto* fault = std::get_if<Refusal>(&parsed)) return std::move(*fault);
  const std::string& name = std::get<ProtoMessage>(parsed).name();
  if (!name.empty()) return ModelQuestion{name, ready};
  return Refusal{RefusalKind::malformed, "missing_field", "the request has no name", "name",
                 "a model of /v1/models"};
}

// The largest limits of any model count until the message is parsed and names its model.
std::size_t values_max_of(const GrpcConfig& config) {
  std::size_t most = infer_values_max(config.limits.candidates_max, row_limits(config.limits));
  for (const ServerModel& model : config.models)
    most = std::max(most, infer_values_max(model.limits.candidates_max, row_limits(model.limits)));
  return most;
}

}  // namespace

std::variant<ServerCall, Refusal> read_infer_call(std::string_view message, const GrpcConfig& config,
                                                  std::int64_t budget_us) {
  const std::size_t values_max = values_max_of(config);
  SchemaCheck schema(values_max);
  ServerCall call;
  auto parsed = parse<oip::ModelInferRequest>(message, schema);
  if (auto* fault = std::get_if<Refusal>(&parsed)) {
    if (fault->code == "bad_message") return std::move(*fault);
    call.fault = std::move(*fault);
    return call;
  }
  const auto& asked = std::get<oip::ModelInferRequest>(parsed);
  call.model = asked.model_name();
  try {
    const ServerLimits& limits = limits_of(call, config);
    auto read = make_infer(parts_of(asked, schema, values_max), limits.candidates_max, row_limits(limits));
    if (auto* fault = std::get_if<Refusal>(&read)) throw std::move(*fault);
    call.asked = shaped(std::get<InferRequest>(std::move(read)), call.model,
                        asked.raw_input_contents_size() > 0, budget_us);
  } catch (const Refusal& refusal) {
    call.fault = refusal;
    if (refusal.code == "malformed_json")
      call.fault->code = "bad_message";  // an input twice; this is no JSON
  }
  return call;
}

std::variant<ModelQuestion, Refusal> read_model_question(std::string_view message, bool ready) {
  return ready ? question_of<oip::ModelReadyRequest>(message, true)
               : question_of<oip::ModelMetadataRequest>(message, false);
}

std::optional<Refusal> reject_if_not_empty(std::string_view message) {
  return SchemaCheck(SIZE_MAX).check(message, *oip::ServerLiveRequest::descriptor());
}

std::string write_ready_reply(bool is_ready) {
  oip::ServerReadyResponse reply;
  reply.set_ready(is_ready);
  return reply.SerializeAsString();
}

std::string write_server_metadata(std::string_view body) {
  const auto metadata = nlohmann::json::parse(body);
  oip::ServerMetadataResponse reply;
  reply.set_name(metadata.at("name").get<std::string>());
  reply.set_version(metadata.at("version").get<std::string>());
  for (const auto& extension : metadata.at("extensions")) reply.add_extensions(extension.get<std::string>());
  return reply.SerializeAsString();
}

std::string write_model_metadata(std::string_view body) {
  const auto metadata = nlohmann::json::parse(body);
  oip::ModelMetadataResponse reply;
  reply.set_name(metadata.at("name").get<std::string>());
  reply.set_platform(metadata.at("platform").get<std::string>());
  for (const auto& version : metadata.at("versions")) reply.add_versions(version.get<std::string>());
  const auto put = [&](const char* list, auto add) {
    for (const auto& tensor : metadata.at(list)) {
      oip::ModelMetadataResponse::TensorMetadata* const made = add();
      made->set_name(tensor.at("name").get<std::string>());
      made->set_datatype(tensor.at("datatype").get<std::string>());
      for (const auto& length : tensor.at("shape")) made->add_shape(length.get<std::int64_t>());
    }
  };
  put("inputs", [&] { return reply.add_inputs(); });
  put("outputs", [&] { return reply.add_outputs(); });
  return reply.SerializeAsString();
}

}  // namespace troupe::server
