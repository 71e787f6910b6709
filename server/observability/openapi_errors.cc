// Lists the codes of each error status. The examples are answers of tests/commands/golden/api.txt.
#include "server/observability/openapi_errors.h"

namespace troupe::server {
namespace {

constexpr ApiError errors[] = {
    {400, "The request is malformed.",
     "malformed_json unknown_field missing_field wrong_type wrong_count unsupported_value unknown_host "
     "bad_http "
     "bad_host needs_tls bad_id id_mismatch empty_user empty_item empty_tenant tenant_in_body "
     "repeated_tenant "
     "repeated_key no_candidates no_items no_labels no_tokens no_texts no_events ambiguous_history "
     "unknown_policy "
     "unknown_arrangement other_arrangement other_policy no_prototypes bad_approximate bad_budget "
     "bad_scenario "
     "bad_timestamp bad_unknown bad_unknown_user unknown_task unknown_freshness unknown_normalisation "
     "two_normalisations too_narrow several_prompts several_queries "
     "which_model bad_condition bad_request_id bad_tenant empty_reload bad_version bad_share "
     "unknown_output",
     R"j("code":"wrong_type","message":"top_k is -1","where":"top_k",)j"
     R"j("expected":"a whole number from 0 to 4294967295","type":"invalid_request_error","param":"top_k")j"},
    {401, "The server has keys, and the request has none that is valid.", "no_key bad_key key_revoked",
     R"j("code":"no_key","message":"the request has no API key","where":"authorization",)j"
     R"j("expected":"Bearer KEY","type":"authentication_error","param":"authorization")j"},
    {403, "The key, the tenant or the browser's page may not do this.",
     "needs_admin_key needs_scrape_key only_metrics not_your_tenant not_your_catalog foreign_origin "
     "admin_routes_off",
     R"j("code":"admin_routes_off","message":"this server does not change models and catalogs",)j"
     R"j("where":"path","expected":"http.admin_routes: true","type":"permission_error","param":"path")j"},
    {404, "A user, an item, a model, a record or the path is not there.",
     "unknown_user unknown_item unknown_model no_record replay_off no_such_path only_grpc",
     R"j("code":"unknown_user","message":"user \"bob\" has no profile","where":"user",)j"
     R"j("expected":"a user that was put or imported","type":"invalid_request_error","param":"user")j"},
    {405, "The path has another method; the field Allow lists them.", "wrong_method",
     R"j("code":"wrong_method","message":"method is GET","where":"method","expected":"POST",)j"
     R"j("type":"invalid_request_error","param":"method")j"},
    {409, "The version that answered is no longer served.", "version_gone",
     R"j("code":"version_gone","message":"the catalog c1 is gone","where":"request_id",)j"
     R"j("expected":"a version that is served","type":"invalid_request_error","param":"request_id")j"},
    {412, "The condition of the write does not hold; nothing was changed.", "changed_meanwhile",
     R"j("code":"changed_meanwhile","message":"version 503 is stored","where":"if-match",)j"
     R"j("expected":"the stored version","type":"invalid_request_error","param":"if-match")j"},
    {413, "The request exceeds a limit; `expected` names the setting.",
     "body_too_long line_too_long too_many_candidates too_many_items too_many_labels too_many_tokens "
     "too_many_events too_many_values too_many_texts too_many_features too_many_inputs too_wide id_too_long "
     "too_much_memory extension_too_long",
     R"j("code":"too_many_candidates","message":"candidates has more than 5 elements","where":"candidates",)j"
     R"j("expected":"at most 5 (router.candidates_max)","type":"invalid_request_error",)j"
     R"j("param":"candidates")j"},
    {415, "The body is compressed, or is a browser's form.", "content_encoding form_body",
     R"j("code":"content_encoding","message":"the body is compressed (gzip)","where":"body",)j"
     R"j("expected":"JSON as plain text","type":"invalid_request_error","param":"body")j"},
    {422, "The request is understood and not possible; do not repeat it unchanged.",
     "unknown_item unknown_token unknown_word no_words no_tokenizer unreadable_text "
     "bad_title bad_history empty_history bad_event_ids missing_feature unknown_feature bad_feature "
     "too_many_events "
     "too_many_tokens catalog_full repeated_candidate too_long too_long_to_explain too_large bad_plan "
     "not_a_ranker not_a_generator not_a_scorer not_an_embedder empty_catalog no_catalog nothing_allowed "
     "versions_fixed model_refused ambiguous_version "
     "wrong_catalog poison",
     R"j("code":"repeated_candidate","message":"item \"camp-0001\" is named twice","where":"candidates",)j"
     R"j("expected":"each candidate once","type":"invalid_request_error","param":"candidates")j"},
    {429, "The tenant or key exceeds its share; repeat it after Retry-After.",
     "rate_limited too_many_at_once tenant_overloaded",
     R"j("code":"rate_limited","message":"too many requests of this tenant","where":"tenant",)j"
     R"j("expected":"fewer requests per second","type":"rate_limit_error","param":"tenant")j"},
    {431, "The header is too long.", "header_too_long trailer_too_long",
     R"j("code":"header_too_long","message":"the header is too long","where":"header",)j"
     R"j("expected":"at most 8192 bytes (http.header_bytes_max)","type":"invalid_request_error",)j"
     R"j("param":"header")j"},
    {500, "A fault in Troupe; the log says more.",
     "bad_model_output bad_pages wrong_answer wrong_job wrong_port port_failed unknown_job",
     R"j("code":"wrong_answer","message":"the router answered with the wrong kind of message",)j"
     R"j("where":"router","expected":"an answer to the request","type":"server_error","param":"router")j"},
    {501, "The body has another transfer coding than chunked.", "transfer_encoding",
     R"j("code":"transfer_encoding","message":"the transfer coding is not supported",)j"
     R"j("where":"transfer-encoding","expected":"chunked","type":"server_error",)j"
     R"j("param":"transfer-encoding")j"},
    {503, "The server cannot answer now; repeat it after Retry-After.",
     "overloaded busy replaced draining stopping starting not_ready too_many_connections no_worker "
     "worker_lost "
     "wrong_model wrong_catalog wrong_prototypes wrong_arrangement unknown_option load_failed no_memory "
     "device_failed "
     "features_unavailable storage_failed data_damaged outcome_unknown coordination_unavailable",
     R"j("code":"not_ready","message":"this node is shutting down","where":"cluster",)j"
     R"j("expected":"another node","type":"server_error","param":"cluster")j"},
    {504, "The time was over before there was an answer.", "deadline_exceeded no_answer",
     R"j("code":"deadline_exceeded","message":"the time was over","where":"budget_us",)j"
     R"j("expected":"a longer one","type":"server_error","param":"budget_us")j"},
};

}  // namespace

std::span<const ApiError> api_errors() { return errors; }

}  // namespace troupe::server
