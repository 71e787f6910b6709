// Chooses the ends, ticks and labels of a plot's axis for any extent of values, linear or
// logarithmic.
#include "deploy/lab/reports/plot_axis.h"

#include <algorithm>
#include <cmath>

#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

constexpr double slack = 1e-9;  // fraction of a step that rounding may add

// Widens an extent until neighbouring ticks differ in double.
Extent widened(Extent extent) {
  if (extent.empty()) return {0, 1};
  const double magnitude = std::max(std::abs(extent.low), std::abs(extent.high));
  if (extent.high - extent.low >= std::max(magnitude * 1e-9, 1e-290)) return extent;
  if (magnitude < 1e-280) return {0, 1};
  const double around = magnitude * 0.1;
  return {extent.low - around, extent.low + around};
}

int exponent_of(double value) { return static_cast<int>(std::floor(std::log10(value) + slack)); }

std::string superscript(int number) {
  static constexpr const char* digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = number < 0 ? "⁻" : "";
  for (char c : std::to_string(std::abs(number))) out += digits[c - '0'];
  return out;
}

// Formats a decimal with a true minus sign, and thin spaces between thousands from 10 000 on.
std::string plain(double value, int decimals) {
  std::string text = fixed(std::abs(value), decimals);
  const std::size_t whole = std::min(text.find('.'), text.size());
  if (whole > 4) text.insert(whole - 3, "\u202F");
  return (value < 0 ? "−" : "") + text;
}

int decimals_of(double step, int unit_exponent) {
  return std::clamp(unit_exponent - exponent_of(step), 0, 10);
}

void label_linear(Axis& axis, double step) {
  const double magnitude = std::max(std::abs(axis.low), std::abs(axis.high));
  const bool powers = magnitude >= 1e6 || magnitude < 1e-3;
  const int exponent = powers ? exponent_of(magnitude) : 0;
  const std::string unit = powers ? "×10" + superscript(exponent) : "";
  for (double tick : axis.ticks)
    axis.labels.push_back(
        tick == 0 ? "0" : plain(tick / std::pow(10, exponent), decimals_of(step, exponent)) + unit);
}

void tick_linear(Axis& axis, double step, int steps_max) {
  const double first = std::ceil(axis.low / step - slack);
  for (int i = 0; i <= steps_max + 1; ++i) {
    const double tick = (first + i) * step + 0.0;  // + 0.0 removes a negative zero
    if (tick <= axis.high + slack * step) axis.ticks.push_back(tick);
  }
  label_linear(axis, step);
}

// Lists 1, 2 and 5 times each power of ten, from below low to above high.
std::vector<double> log_candidates(Extent extent) {
  std::vector<double> all;
  for (int exponent = exponent_of(extent.low) - 1; exponent <= exponent_of(extent.high) + 1; ++exponent)
    for (int digit : {1, 2, 5}) all.push_back(digit * std::pow(10, exponent));
  return all;
}

// Uses all candidates in the axis if they are few, else every first, second, … power of ten.
void tick_log(Axis& axis, const std::vector<double>& candidates, int steps_max) {
  std::vector<double> powers;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i] < axis.low || candidates[i] > axis.high) continue;
    axis.ticks.push_back(candidates[i]);
    if (i % 3 == 0) powers.push_back(candidates[i]);
  }
  const std::size_t ticks_max = static_cast<std::size_t>(steps_max) + 1;
  if (axis.ticks.size() <= ticks_max || powers.size() < 2) return;
  axis.ticks.clear();
  const std::size_t every = (powers.size() - 1) / ticks_max + 1;
  for (std::size_t i = 0; i < powers.size(); i += every) axis.ticks.push_back(powers[i]);
}

void tick_minor(Axis& axis) {
  if (exponent_of(axis.high) - exponent_of(axis.low) > 6) return;
  for (int exponent = exponent_of(axis.low); exponent <= exponent_of(axis.high); ++exponent)
    for (int digit = 1; digit < 10; ++digit) {
      const double tick = digit * std::pow(10, exponent);
      if (tick > axis.low && tick < axis.high) axis.minor_ticks.push_back(tick);
    }
}

void label_log(Axis& axis) {
  const bool powers = axis.low < 1e-3 || axis.high >= 1e6;
  for (double tick : axis.ticks) {
    const int exponent = exponent_of(tick);
    const double digit = std::round(tick / std::pow(10, exponent));
    const std::string power = "10" + superscript(exponent);
    axis.labels.push_back(!powers      ? plain(tick, decimals_of(tick, 0))
                          : digit == 1 ? power
                                       : plain(digit, 0) + "×" + power);
  }
}

}  // namespace

void Extent::add(double value) {
  const double kept = std::clamp(value, -axis_max, axis_max);
  low = std::min(low, kept);
  high = std::max(high, kept);
}

double Axis::place(double value) const {
  if (log) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  return (value - low) / (high - low);
}

double nice_step(double span, int steps_max) {
  const double least = span / steps_max;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (double digit : {1.0, 2.0, 5.0})
    if (digit * power >= least * (1 - slack)) return digit * power;
  return 10 * power;
}

Axis tight_axis(Extent extent, int steps_max) {
  const Extent wide = widened(extent);
  Axis axis{wide.low, wide.high};
  tick_linear(axis, nice_step(wide.high - wide.low, steps_max), steps_max);
  return axis;
}

Axis rounded_axis(Extent extent, int steps_max) {
  if (extent.low == extent.high) extent.add(0);
  Extent wide = widened(extent);
  if (wide.low > 0 && wide.low < 0.7 * wide.high) wide.low = 0;
  if (wide.high < 0 && wide.high > 0.7 * wide.low) wide.high = 0;
  double step = nice_step(wide.high - wide.low, steps_max);
  auto low = [&] { return std::floor(wide.low / step + slack); };
  auto high = [&] { return std::ceil(wide.high / step - slack); };
  if (high() - low() > steps_max)
    step = nice_step((high() - low()) * step, steps_max);  // rounding the ends changed the span
  Axis axis{low() * step, high() * step};
  tick_linear(axis, step, steps_max);
  return axis;
}

Axis log_axis(Extent extent, int steps_max) {
  if (extent.empty()) extent = {1, 10};
  extent = {std::max(extent.low, 1 / axis_max), std::max(extent.high, 1 / axis_max)};
  const std::vector<double> candidates = log_candidates(extent);
  auto above = [&](double value) {
    return std::find_if(candidates.begin(), candidates.end(),
                        [&](double tick) { return tick >= value * (1 - slack); });
  };
  auto low = above(extent.low * (1 + 4 * slack)) - 1, high = above(extent.high);
  if (low == high) --low, ++high;
  Axis axis{*low, *high, true};
  tick_log(axis, candidates, steps_max);
  tick_minor(axis);
  label_log(axis);
  return axis;
}

}  // namespace troupe::deploy
