// Prints what `troupe verify` found, as a table with sentences and as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "deploy/reports/table.h"
#include "deploy/verify/verification.h"

namespace troupe::deploy {
namespace {

using nlohmann::json;

std::string plus_minus_of(const Mean& mean, int decimals) {
  return fixed(mean.value, decimals) + " ± " + fixed(mean.standard_error, decimals);
}

double largest_reuse(const ArrangementCheck& check) {
  double largest = 0;
  for (const ReuseCheck& reuse : check.reuse) largest = std::max(largest, reuse.largest);
  return largest;
}

json words_json(const std::vector<Arrangement>& arrangements) {
  json words = json::array();
  for (const Arrangement arrangement : arrangements) words.push_back(word_of(arrangement));
  return words;
}

// Infinity has no JSON number.
json number_json(double value) { return value <= 1e300 ? json(value) : json("infinite"); }

void print_table(std::ostream& out, const VerifyReport& report) {
  constexpr auto right = Table::Align::right;
  const bool ranks = report.events > 0 || report.arrangements.size() > 1;
  Table table({{"arrangement"},
               {"declared"},
               {"reuse", right},
               {"overlap@10", right},
               {"rank corr.", right},
               {"largest diff.", right},
               {"NDCG@10", right},
               {"change", right},
               {"verdict"}});
  for (const ArrangementCheck& check : report.arrangements) {
    const bool first = &check == &report.arrangements.front();
    const bool judged = check.events > 0;
    const bool compared = ranks && !first && check.requests > 0;
    table.row({std::string(word_of(check.arrangement)),
               first            ? "first"
               : check.declared ? "yes"
                                : "no",
               check.reuse.empty() ? "–" : scientific(largest_reuse(check)),
               compared ? fixed(check.overlap_at_10.value, 3) : "–",
               compared ? fixed(check.rank_correlation.value, 3) : "–",
               compared ? fixed(check.largest_difference, 3) : "–",
               judged ? plus_minus_of(check.quality.ndcg, 4) : "–",
               judged && !first ? plus_minus_of(check.quality.change, 4) : "–",
               report.arrangements.size() < 2 ? "–" : std::string(name_of(check.quality.verdict))});
  }
  table.print(out);
}

// Says what the numbers leave out.
void print_left_out(std::ostream& out, const VerifyReport& report) {
  const LeftOut& left_out = report.left_out;
  const auto say = [&](std::size_t count, const char* text) {
    if (count > 0) out << count << text << "\n";
  };
  say(report.skipped, " requests were skipped, because they do not fit under every declared arrangement.");
  say(left_out.no_profile, " requests were skipped, because the data folder does not have their users.");
  say(left_out.unknown_requests, " requests were skipped, because the catalog lacks their true items.");
  say(left_out.unknown_items, " items of histories and candidates were left out, which the catalog lacks.");
  say(left_out.cut_histories,
      " histories of the data folder were cut before the true item or at the request's time.");
  say(left_out.repeated_items,
      " events have their true item in their own history, too: they show little unless users take items "
      "again.");
  const std::size_t all = report.arrangements.empty() ? 0 : report.arrangements.front().requests;
  for (const ArrangementCheck& check : report.arrangements)
    if (!check.declared && check.requests < all)
      out << word_of(check.arrangement) << ", which is not declared, was compared on " << check.requests
          << " of " << all << " requests; the others cannot be computed under it.\n";
}

void print_reuse(std::ostream& out, const VerifyReport& report) {
  double largest = 0;
  bool any = false;
  for (const ArrangementCheck& check : report.arrangements) {
    largest = std::max(largest, largest_reuse(check));
    any = any || !check.reuse.empty();
  }
  if (!any) {
    out << "Reuse: these prompts have no blocks.\n";
    return;
  }
  const char* const why =
      report.weights != "f32" ? "because a sum in another order may move an 8-bit activation by one step"
      : report.pages != "f32" ? "because a sum in another order may round a key or value to its neighbour"
                              : "because sums are added in another order";
  out << "Reuse: with blocks of earlier computations a score differs by at most " << scientific(largest)
      << " from the plain computation (" << report.reuse_requests << " requests).\n  Up to "
      << scientific(report.relative) << " of a request's largest score is rounding with " << report.pages
      << " pages and " << report.weights << " weights,\n  " << why << ".\n";
}

void print_golden(std::ostream& out, const GoldenCheck& golden) {
  if (golden.lines == 0) return;
  out << "Golden: " << golden.lines << " lines; up to " << scientific(golden.relative)
      << " of a line's largest score is rounding.\n";
  if (golden.named > 0)
    out << "  " << golden.named_equal << " of " << golden.named
        << " lines equal the arrangement or prompt that they name\n";
  for (const GoldenArrangement& to : golden.arrangements)
    if (golden.lines > golden.named)
      out << "  " << to.equal << " of " << golden.lines - golden.named << " lines equal "
          << word_of(to.arrangement) << ", largest difference " << scientific(to.largest) << "\n";
}

void print_verdict(std::ostream& out, const VerifyReport& report) {
  if (report.arrangements.size() < 2) return;
  if (!report.shown) {
    out << "Interchangeable: not shown, because there are " << report.events
        << " held-out events; expected at least " << events_needed << ".\n";
    return;
  }
  if (report.declared.size() < 2)
    out << "Interchangeable: none, because only " << words_of(report.declared) << " is declared.";
  else if (report.interchangeable.size() < 2)
    out << "Interchangeable: none beside " << word_of(report.declared.front()) << ".";
  else
    out << "Interchangeable: " << words_of(report.interchangeable) << ".";
  out << "\n  As good: NDCG@10 is lower by at most " << percent(report.tolerance)
      << " and one paired standard error.\n";
}

}  // namespace

void print(std::ostream& out, const VerifyReport& report) {
  out << report.model << ", " << (report.form_file.empty() ? "no form file" : report.form_file) << ": "
      << report.requests << " requests, " << report.events << " held-out events, "
      << (report.requests_file.empty() ? "users with candidates of the catalog" : report.requests_file)
      << "\n";
  print_table(out, report);
  print_left_out(out, report);
  print_reuse(out, report);
  print_golden(out, report.golden);
  print_verdict(out, report);
  for (const std::string& note : report.notes) out << note << "\n";
  if (!report.written.empty()) out << "Written: " << report.written << "\n";
  if (!report.write_fault.empty())
    out << (report.written.empty() ? "not written: " : "but ") << report.write_fault << "\n";
  for (const std::string& fault : report.faults) out << "differs: " << fault << "\n";
}

json to_json(const VerifyReport& report) {
  json arrangements = json::array();
  for (const ArrangementCheck& check : report.arrangements) {
    json reuse = json::array();
    for (const ReuseCheck& one : check.reuse)
      reuse.push_back({{"reused", one.reused},
                       {"requests", one.requests},
                       {"largest_difference", number_json(one.largest)},
                       {"bound", one.bound},
                       {"score", one.score}});
    arrangements.push_back({{"arrangement", word_of(check.arrangement)},
                            {"declared", check.declared},
                            {"requests", check.requests},
                            {"events", check.events},
                            {"reuse", std::move(reuse)},
                            {"overlap@10", to_json(check.overlap_at_10)},
                            {"rank_correlation", to_json(check.rank_correlation)},
                            {"largest_difference", number_json(check.largest_difference)},
                            {"ndcg@10", to_json(check.quality.ndcg)},
                            {"change", to_json(check.quality.change)},
                            {"verdict", name_of(check.quality.verdict)}});
  }
  json equal = json::array();
  for (const GoldenArrangement& to : report.golden.arrangements)
    equal.push_back({{"arrangement", word_of(to.arrangement)},
                     {"equal", to.equal},
                     {"largest_difference", number_json(to.largest)}});
  return {{"model", report.model},
          {"model_version", report.version},
          {"form", report.form_file},
          {"requests_file", report.requests_file},
          {"requests", report.requests},
          {"events", report.events},
          {"skipped", report.skipped},
          {"left_out",
           {{"unknown_items", report.left_out.unknown_items},
            {"unknown_requests", report.left_out.unknown_requests},
            {"no_profile", report.left_out.no_profile},
            {"cut_histories", report.left_out.cut_histories},
            {"repeated_items", report.left_out.repeated_items}}},
          {"weights", report.weights},
          {"pages", report.pages},
          {"rounding", report.relative},
          {"tolerance", report.tolerance},
          {"declared", words_json(report.declared)},
          {"arrangements", std::move(arrangements)},
          {"golden",
           {{"lines", report.golden.lines},
            {"named", report.golden.named},
            {"named_equal", report.golden.named_equal},
            {"rounding", report.golden.relative},
            {"arrangements", std::move(equal)},
            {"equals", word_of(report.golden.equals)},
            {"faults", report.golden.faults}}},
          {"shown", report.shown},
          {"interchangeable", words_json(report.interchangeable)},
          {"written", report.written},
          {"write_fault", report.write_fault},
          {"notes", report.notes},
          {"faults", report.faults}};
}

}  // namespace troupe::deploy
