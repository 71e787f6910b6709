// Builds the OpenAPI document of the HTTP API from the schemas that parse the bodies, so that
// document and server agree.
#include "server/observability/openapi.h"

#include <map>

#include "runtime/wire/json.h"
#include "runtime/wire/json_text.h"

namespace troupe::server {

namespace {

constexpr ApiPath paths[] = {
    {"post", "/v1/rank", "Orders candidate items for a user.", "RankRequest", "RankReply"},
    {"post", "/v1/generate", "Finds items of the whole catalog for a user.", "GenerateRequest",
     "GenerateReply"},
    {"post", "/v1/score", "Scores label tokens after each item, also in the forms of vLLM and SGLang.",
     "ScoreBody", "ScoreAnswer"},
    {"post", "/score", "Scores texts or labels, at vLLM's path.", "ScoreBody", "ScoreAnswer"},
    {"post", "/generative_scoring", "Returns the first label's probability per item, in vLLM's form.", "Any",
     "ScoreList"},
    {"post", "/v1/completions", "Continues a prompt, in OpenAI's form.", "CompletionRequest", "Completion"},
    {"post", "/v1/rerank", "Orders items for a user, in the form of Cohere and Jina.", "Any", "Any"},
    {"post", "/v2/rerank", "Orders items for a user, in Cohere's version 2 form.", "Any", "Any"},
    {"get", "/v1/users/{id}", "Returns a user's stored profile.", "", "Any"},
    {"post", "/v1/users/{id}/events", "Appends events to a user's history, each event id once.", "Any",
     "Appended"},
    {"put", "/v1/users/{id}", "Replaces a user's profile.", "PutUser", "Stored"},
    {"delete", "/v1/users/{id}", "Removes a user.", "", "Stored"},
    {"post", "/v1/users", "Puts and removes many users, one per line.", "", "", "application/x-ndjson"},
    {"post", "/v1/items", "Puts and removes many items, one per line.", "", "", "application/x-ndjson"},
    {"post", "/v1/events", "Appends events of many users, one event list per line.", "", "",
     "application/x-ndjson"},
    {"get", "/v1/items/{id}", "Returns an item as it is stored.", "", "Any"},
    {"put", "/v1/items/{id}", "Puts an item into the catalog.", "PutItem", "Stored"},
    {"delete", "/v1/items/{id}", "Removes an item from the catalog.", "", "Stored"},
    {"post", "/v1/models/reload", "Switches to another version of the model.", "Reload", "Stored"},
    {"post", "/v1/catalog/reload", "Switches to another version of the catalog.", "Reload", "Stored"},
    {"post", "/v1/replay", "Answers a recorded request again and compares the answers.", "ReplayRequest",
     "ReplayReply"},
    {"get", "/v1/models", "Lists the served models.", "", "ModelList"},
    {"get", "/v1/cluster", "Returns the status of each actor.", "", "Cluster"},
    {"get", "/v1/slowest", "Lists the slowest requests of the last five minutes.", "", "Slowest"},
    {"get", "/v2", "Returns the server's metadata, in the form of the Open Inference Protocol.", "", "Any"},
    {"get", "/v2/models/{model}", "Lists the inputs and outputs of a model.", "", "Any"},
    {"get", "/v2/models/{model}/ready", "Tells whether a model is ready for requests.", "", "Any"},
    {"post", "/v2/models/{model}/infer", "Orders or generates items for a user, as tensors.", "Any", "Any"},
    {"get", "/v2/health/live", "Tells whether the process runs.", "", "Live"},
    {"get", "/v2/health/ready", "Tells whether the node can serve requests.", "", "Ready"},
    {"get", "/openapi.json", "Returns this OpenAPI document.", "", "Any"},
    {"get", "/metrics", "Returns the metrics in Prometheus' text format, or in OpenMetrics.", "", "",
     "text/plain"},
    {"get", "/", "Returns the live page.", "", "", "text/html"},
};

// Schemas of bodies without a Cap'n Proto schema.
constexpr std::pair<const char*, const char*> by_hand[] = {
    {"Error", R"({"type":"object","required":["error"],"additionalProperties":false,"properties":{)"
              R"("error":{"type":"object","additionalProperties":false,"required":["status","code",)"
              R"("message","where","expected","type","param"],"properties":{"status":{)"
              R"("type":"integer","minimum":400,"maximum":599},"code":{"type":"string"},"message":{)"
              R"("type":"string"},"where":{"type":"string"},"expected":{"type":"string"},"type":{)"
              R"("type":"string","enum":["invalid_request_error","permission_error",)"
              R"("rate_limit_error","server_error"]},"param":{"type":"string"}}}}})"},
    {"CompletionRequest",
     R"({"type":"object","required":["prompt"],"properties":{"prompt":{},"max_tokens":{)"
     R"("type":"integer","minimum":0},"n":{"type":"integer","minimum":1},"beam_width":{)"
     R"("type":"integer","minimum":0},"items":{"type":"boolean"},"logprobs":{)"
     R"("type":["integer","null"]},"model":{"type":"string"},"budget_us":{"type":"integer",)"
     R"("minimum":0}}})"},
    {"Completion", R"({"type":"object","required":["id","object","created","model","choices","usage"],)"
                   R"("properties":{"id":{"type":"string"},"object":{"type":"string",)"
                   R"("enum":["text_completion"]},"created":{"type":"integer"},"model":{"type":"string"},)"
                   R"("choices":{"type":"array","items":{"type":"object","required":["index","text",)"
                   R"("finish_reason","tokens","log_probability"],"properties":{"index":{"type":"integer"})"
                   R"(,"text":{"type":"string"},"finish_reason":{"type":"string","enum":["stop","length"]})"
                   R"(,"tokens":{"type":"array","items":{"type":"integer"}},"log_probability":{)"
                   R"("type":"number"}}}},"usage":{"type":"object","required":["prompt_tokens",)"
                   R"("completion_tokens","total_tokens"]}}})"},
    {"ScoreBody", R"({"anyOf":[{"$ref":"#/components/schemas/ScoreRequest"},{"type":"object"}]})"},
    {"ScoreAnswer",
     R"({"anyOf":[{"$ref":"#/components/schemas/ScoreReply"},{)"
     R"("$ref":"#/components/schemas/ScoreList"},{"$ref":"#/components/schemas/ScoreRows"}]})"},
    {"ScoreList", R"({"type":"object","required":["id","object","created","model","data","usage"],)"
                  R"("additionalProperties":false,"properties":{"id":{"type":"string"},"object":{)"
                  R"("type":"string","enum":["list"]},"created":{"type":"integer"},"model":{)"
                  R"("type":"string"},"data":{"type":"array","items":{"type":"object",)"
                  R"("required":["index","object","score"],"additionalProperties":false,"properties":{)"
                  R"("index":{"type":"integer"},"object":{"type":"string","enum":["score"]},"score":{)"
                  R"("type":"number"}}}},"usage":{"type":"object"}}})"},
    {"ScoreRows", R"({"type":"object","required":["scores","model","usage","object"],)"
                  R"("additionalProperties":false,"properties":{"scores":{"type":"array","items":{)"
                  R"("type":"array","items":{"type":"number"}}},"model":{"type":"string"},"usage":{)"
                  R"("type":"object"},"object":{"type":"string","enum":["scoring"]}}})"},
    {"ModelList", R"({"type":"object","required":["object","data"],"additionalProperties":false,)"
                  R"("properties":{"object":{"type":"string","enum":["list"]},"data":{"type":"array",)"
                  R"("items":{"type":"object","required":["id","object","created","owned_by","serves"],)"
                  R"("additionalProperties":false,"properties":{"id":{"type":"string"},"object":{)"
                  R"("type":"string","enum":["model"]},"created":{"type":"integer"},"owned_by":{)"
                  R"("type":"string"},"serves":{"type":"string"},"version":{"type":"string"}}}}}})"},
    {"Cluster", R"({"type":"object","required":["actors","silent","names"],)"
                R"("additionalProperties":false,"properties":{"actors":{"type":"array","items":{)"
                R"("$ref":"#/components/schemas/StatusReply"}},"silent":{"type":"array","items":{)"
                R"("type":"object","required":["node","role"],"properties":{"node":{"type":"integer"},)"
                R"("role":{"type":"string"},"model":{"type":"string"}}}},"names":{"type":"object"}}})"},
    {"Slowest", R"({"type":"object","required":["requests"],"additionalProperties":false,"properties":{)"
                R"("requests":{"type":"array","items":{"type":"object","required":["request","trace",)"
                R"("kind","tenant","status","us","ago_ms","timings"]}}}})"},
    {"Live", R"({"type":"object","required":["live"],"additionalProperties":false,"properties":{)"
             R"("live":{"type":"boolean"}}})"},
    {"Ready", R"({"type":"object","required":["ready"],"additionalProperties":false,"properties":{)"
              R"("ready":{"type":"boolean"}}})"},
    {"Any", R"({"type":"object"})"},
};

std::string content(std::string_view type, std::string_view schema) {
  std::string out = "{\"" + std::string(type) + "\":{\"schema\":";
  if (schema.empty()) return out + R"({"type":"string"}}})";
  return out + R"({"$ref":"#/components/schemas/)" + std::string(schema) + "\"}}}";
}

// Writes an operation. Every error has the same form, whatever its status.
std::string operation(const ApiPath& of) {
  std::string out = "\"" + std::string(of.method) + "\":{\"summary\":";
  append_json_string(out, of.summary);
  out += R"(,"parameters":[{"$ref":"#/components/parameters/tenant"},{)"
         R"("$ref":"#/components/parameters/request_id"},{"$ref":"#/components/parameters/traceparent"})";
  for (const std::string name : {"id", "model"})
    if (of.path.find("{" + name + "}") != of.path.npos)
      out += ",{\"name\":\"" + name +
             R"(","in":"path","required":true,"schema":{"type":"string","minLength":1,"maxLength":256}})";
  out += "]";
  if (!of.body.empty())
    out += R"(,"requestBody":{"required":true,"content":)" + content("application/json", of.body) + "}";
  return out + R"(,"responses":{"200":{"description":"The request succeeded.","content":)" +
         content(of.type, of.answer) +
         R"(},"default":{"description":"The request was refused; status and code say why.","content":)" +
         content("application/json", "Error") + "}}}";
}

std::string make_openapi() {
  std::map<std::string_view, std::string> operations;  // by path
  for (const ApiPath& path : paths) {
    std::string& of = operations[path.path];
    of += (of.empty() ? "" : ",") + operation(path);
  }
  std::string out = R"({"openapi":"3.1.0","info":{"title":"Troupe","version":"1",)"
                    R"("description":"Ranks and generates items for users. )"
                    R"(docs/reference/request-fields.md describes every member."},)"
                    R"("security":[{},{"key":[]}],"paths":{)";
  for (const auto& [path, of] : operations) {
    append_json_string(out += out.back() == '{' ? "" : ",", path);
    out += ":{" + of + "}";
  }
  out += R"(},"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}},"parameters":{)"
         R"("tenant":{"name":"x-troupe-tenant","in":"header","schema":{"type":"string"},)"
         R"("description":"Tenant of the users, rankings and scores."},"request_id":{"name":"x-request-id",)"
         R"("in":"header","schema":{"type":"string","maxLength":128}},"traceparent":{"name":"traceparent",)"
         R"("in":"header","schema":{"type":"string"}}},"schemas":{)";
  for (const auto& [name, schema] : body_schemas()) {
    append_json_string(out += out.back() == '{' ? "" : ",", name);
    out += ":" + schema;
  }
  for (const auto& [name, schema] : by_hand) out += ",\"" + std::string(name) + "\":" + schema;
  return out + "}}}";
}

}  // namespace

std::span<const ApiPath> api_paths() { return paths; }

const std::string& openapi() {
  static const std::string text = make_openapi();
  return text;
}

}  // namespace troupe::server
