// Holds the examples of the OpenAPI document.
#include "server/observability/openapi_examples.h"

#include <algorithm>

namespace troupe::server {
namespace {

constexpr std::string_view stored = R"({"version":501})";
constexpr std::string_view lines_done = R"({"line":1,"status":200,"version":501}
{"lines":1,"failed":0}
)";

constexpr ApiExample examples[] = {
    {"post", "/v1/rank", R"({"user":"ana","candidates":["camp-0001","camp-0002"],"top_k":1})",
     R"({"user":"ana","items":[{"id":"camp-0002","title":"Fernhollow Easy-Use Insulated Food Jar, Berry )"
     R"(Red","score":3.785,"probability":0.558}],"policy":"planner","plan":"item","tokens_total":40,)"
     R"("tokens_computed":26,"tokens_reused":14,"blocks_reused":3,"blocks_written":0,"history_cut":0,)"
     R"("model_version":"fddb2b42","catalog_version":"c1","profile_version":1,"node":1,"timings":{)"
     R"("features":479,"lookup":111,"blocks":512,"queue":0,"compute":456,"total":1685,"pull":0,)"
     R"("predicted":449,"turn":0},"approximate":0,"features_stale":0,"features_missing":0,)"
     R"("arrangement":"item_first"})"},
    {"post", "/v1/generate", R"({"user":"7","top_k":2,"exclude_seen":true})", ""},
    {"post", "/v1/score",
     R"({"query":[1,2,3],"items":[{"tokens":[5,6]},{"tokens":[7]}],"label_tokens":[8,9],)"
     R"("apply_softmax":true})",
     ""},
    {"post", "/score", R"({"text_1":"ana","text_2":["camp-0001","camp-0002"]})",
     R"({"id":"score-7","object":"list","created":1795454017,"model":"fddb2b42","data":[{"index":0,)"
     R"("object":"score","score":0.442},{"index":1,"object":"score","score":0.558}],)"
     R"("usage":{"prompt_tokens":40,"total_tokens":40}})"},
    {"post", "/generative_scoring", R"({"query":[1],"items":[[2],[3]],"label_token_ids":[4,5]})",
     R"({"id":"score-8","object":"list","created":1795454017,"model":"fddb2b42","data":[{"index":0,)"
     R"("object":"score","score":0.4},{"index":1,"object":"score","score":0.6}],)"
     R"("usage":{"prompt_tokens":4,"total_tokens":4}})"},
    {"post", "/v1/completions", R"({"prompt":"<bos> <a_94>","max_tokens":3,"n":1})",
     R"({"id":"cmpl-9","object":"text_completion","created":1795819635,"model":"91a6c0de","choices":[{)"
     R"("index":0,"text":"<a_107> <b_93> <c_0>","logprobs":null,"finish_reason":"length",)"
     R"("tokens":[111,353,516],"log_probability":-3.882}],"usage":{"prompt_tokens":2,)"
     R"("completion_tokens":3,"total_tokens":5}})"},
    {"post", "/v1/rerank", R"({"query":"ana","documents":["camp-0001","camp-0002"],"top_n":1})",
     R"({"id":"rerank-7","model":"fddb2b42","results":[{"index":1,"relevance_score":0.558}],)"
     R"("usage":{"prompt_tokens":40,"total_tokens":40},"meta":{"api_version":{"version":"2"},)"
     R"("billed_units":{"search_units":1}}})"},
    {"post", "/v2/rerank", R"({"model":"troupe","query":"ana","documents":["camp-0001","camp-0002"]})",
     R"({"id":"rerank-7","model":"fddb2b42","results":[{"index":1,"relevance_score":0.558},{"index":0,)"
     R"("relevance_score":0.442}],"usage":{"prompt_tokens":40,"total_tokens":40},"meta":{"api_version":{)"
     R"("version":"2"},"billed_units":{"search_units":1}}})"},
    {"post", "/rerank", R"({"query":"ana","texts":["camp-0001","camp-0002"]})",
     R"([{"index":1,"score":0.558},{"index":0,"score":0.442}])"},
    {"post", "/v1/embeddings", R"({"input":[[28,66,197],[5,6]]})",
     R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.6,-0.8]},{)"
     R"("object":"embedding","index":1,"embedding":[0.8,0.6]}],"model":"fddb2b42",)"
     R"("usage":{"prompt_tokens":5,"total_tokens":5}})"},
    {"post", "/tokenize", R"({"prompt":"a red tent"})",
     R"({"count":3,"max_model_len":32768,"tokens":[64,2518,13910],"token_strs":null})"},
    {"get", "/v1/users/{id}", "", R"({"user":"ana","version":1,"history":["camp-0001","camp-0003"]})"},
    {"put", "/v1/users/{id}", R"({"history":["camp-0001","camp-0003"]})", stored},
    {"delete", "/v1/users/{id}", "", stored},
    {"post", "/v1/users/{id}/events", R"({"events":[{"id":"click-17","item":"camp-0002"}]})",
     R"({"version":503,"appended":1,"repeated":0,"dropped":0,"events":1})"},
    {"post", "/v1/users", R"({"user":"bob","history":["camp-0001"]})", lines_done},
    {"post", "/v1/items", R"({"item":"camp-9001","title":"Blue tent","tokens":[28,66],"identifier":197})",
     lines_done},
    {"post", "/v1/events", R"({"user":"bob","events":[{"item":"camp-0002"}]})",
     R"({"line":1,"status":200,"version":503,"appended":1,"repeated":0,"dropped":0,"events":2}
{"lines":1,"failed":0}
)"},
    {"get", "/v1/items/{id}", "",
     R"({"item":"camp-9001","title":"Blue tent","tokens":[28,66],"identifier":197,"version":2})"},
    {"put", "/v1/items/{id}", R"({"title":"Blue tent","tokens":[28,66],"identifier":197})",
     R"({"version":2})"},
    {"delete", "/v1/items/{id}", "", R"({"version":3})"},
    {"post", "/v1/models/reload", R"({"model":"91a6c0de","share":0.1})", R"({"version":4})"},
    {"post", "/v1/catalog/reload", R"({"catalog":"c2"})", R"({"version":5})"},
    {"post", "/v1/replay", R"({"request_id":"4bf92f3577b34da6a3ce929d0e0e4736"})", ""},
    {"get", "/v1/models", "",
     R"({"object":"list","data":[{"id":"fddb2b42","object":"model","created":0,"owned_by":"troupe",)"
     R"("serves":"rank, score"}]})"},
    {"get", "/info", "",
     R"({"model_id":"fddb2b42","model_sha":"fddb2b42","model_type":{},"max_input_length":4096,)"
     R"("max_client_batch_size":1000,"version":"0.1.0"})"},
    {"get", "/v2", "", R"({"name":"troupe","version":"0.1.0","extensions":[]})"},
    {"post", "/v2/models/{model}/infer",
     R"({"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["ana"]},{"name":"candidates",)"
     R"("shape":[2],"datatype":"BYTES","data":["camp-0001","camp-0002"]}]})",
     R"({"model_name":"troupe","model_version":"fddb2b42","outputs":[{"name":"items","datatype":"BYTES",)"
     R"("shape":[2],"data":["camp-0001","camp-0002"]},{"name":"scores","datatype":"FP64","shape":[2],)"
     R"("data":[3.552,3.785]},{"name":"probabilities","datatype":"FP64","shape":[2],)"
     R"("data":[0.442,0.558]}]})"},
    {"get", "/v2/health/live", "", R"({"live":true})"},
    {"get", "/v2/health/ready", "", R"({"ready":true})"},
};

}  // namespace

ApiExample api_example(std::string_view method, std::string_view path) {
  const auto found = std::ranges::find_if(
      examples, [&](const ApiExample& example) { return example.method == method && example.path == path; });
  return found == std::end(examples) ? ApiExample{method, path, "", ""} : *found;
}

}  // namespace troupe::server
