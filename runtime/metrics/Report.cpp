// Curves as SVG, drawn from metrics.jsonl.
#include "runtime/metrics/Report.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Json.h"

#include <algorithm>
#include <cmath>

namespace shale::rt {

namespace {
struct Point {
  double step, value;
};
using Curve = std::vector<Point>;

constexpr double width = 620, height = 260, left = 70, right = 14, top = 12, bottom = 34;
constexpr size_t columns = 500;

std::string escaped(const std::string &text) {
  std::string out;
  for (char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

/// Reduces a curve to the least and the greatest value of each column, in their order.
Curve thinned(const Curve &curve) {
  if (curve.size() <= 2 * columns)
    return curve;
  Curve out;
  for (size_t c = 0; c < columns; ++c) {
    auto begin = curve.begin() + curve.size() * c / columns;
    auto end = curve.begin() + curve.size() * (c + 1) / columns;
    auto [low, high] = std::minmax_element(
        begin, end, [](const Point &x, const Point &y) { return x.value < y.value; });
    if (high < low)
      std::swap(low, high);
    out.push_back(*low);
    if (low != high)
      out.push_back(*high);
  }
  return out;
}

/// Returns a round distance that gives about five marks.
double markDistance(double span) {
  double power = std::pow(10, std::floor(std::log10(span / 5)));
  for (double factor : {1.0, 2.0, 5.0, 10.0})
    if (power * factor * 6 >= span)
      return power * factor;
  return span;
}

std::string label(double value) {
  double size = std::fabs(value);
  if (size >= 1e6)
    return format("%.3gM", value / 1e6);
  if (size >= 1e4)
    return format("%.3gk", value / 1e3);
  return format("%.4g", value);
}

struct Chart {
  std::string name;
  Curve curve, marks; // marks: evaluations, as a line with dots
  bool fromZero = false;
};

std::string drawn(const Chart &chart) {
  if (chart.curve.empty() && chart.marks.empty())
    return "";
  double lowX = INFINITY, highX = -INFINITY, lowY = INFINITY, highY = -INFINITY;
  for (const Curve *curve : {&chart.curve, &chart.marks})
    for (const Point &point : *curve) {
      lowX = std::min(lowX, point.step);
      highX = std::max(highX, point.step);
      lowY = std::min(lowY, point.value);
      highY = std::max(highY, point.value);
    }
  if (chart.fromZero)
    lowY = std::min(lowY, 0.0);
  if (highX <= lowX)
    highX = lowX + 1;
  if (highY - lowY <= 1e-12 * std::fabs(highY))
    highY = lowY + (lowY == 0 ? 1 : 0.1 * std::fabs(lowY));
  double margin = 0.04 * (highY - lowY);
  highY += margin;
  if (!chart.fromZero)
    lowY -= margin;
  auto x = [&](double step) {
    return left + (step - lowX) / (highX - lowX) * (width - left - right);
  };
  auto y = [&](double value) {
    return height - bottom - (value - lowY) / (highY - lowY) * (height - top - bottom);
  };
  std::string svg = format("<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %g %g\">",
                           escaped(chart.name).c_str(), width, height);
  double step = markDistance(highY - lowY);
  for (double at = std::ceil(lowY / step) * step; at <= highY; at += step)
    svg += format("<path class=\"grid\" d=\"M%g %.1fH%g\"/><text x=\"%g\" y=\"%.1f\" "
                  "text-anchor=\"end\">%s</text>",
                  left, y(at), width - right, left - 6, y(at) + 4,
                  label(std::fabs(at) < step * 1e-9 ? 0 : at).c_str());
  step = std::max(1.0, markDistance(highX - lowX));
  for (double at = std::ceil(lowX / step) * step; at <= highX; at += step)
    svg += format("<path class=\"grid\" d=\"M%.1f %gV%g\"/><text x=\"%.1f\" y=\"%g\" "
                  "text-anchor=\"middle\">%s</text>",
                  x(at), top, height - bottom, x(at), height - bottom + 18, label(at).c_str());
  auto line = [&](const Curve &curve, const char *kind) {
    if (curve.empty())
      return;
    svg += format("<polyline class=\"%s\" points=\"", kind);
    for (const Point &point : curve)
      svg += format("%.1f,%.1f ", x(point.step), y(point.value));
    svg += "\"/>";
  };
  line(thinned(chart.curve), "curve");
  line(thinned(chart.marks), "marks");
  if (chart.marks.size() <= 200)
    for (const Point &point : chart.marks)
      svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>step %g: "
                    "%.6g</title></circle>",
                    x(point.step), y(point.value), point.step, point.value);
  if (chart.curve.size() == 1)
    svg += format("<circle class=\"one\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", x(chart.curve[0].step),
                  y(chart.curve[0].value));
  return svg + "</svg></figure>\n";
}

const char *const style =
    "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:1320px;padding:0 1em;"
    "color:#222;background:#fff}h1{font-size:1.4em}table{border-collapse:collapse;"
    "margin-bottom:1.5em}td{padding:.15em 1.2em .15em 0;vertical-align:top}"
    "td:first-child{color:#666}main{display:grid;"
    "grid-template-columns:repeat(auto-fit,minmax(460px,1fr));gap:1em}figure{margin:0}"
    "figcaption{font-weight:600;padding-left:70px}svg{width:100%;height:auto}"
    "text{font:11px system-ui,sans-serif;fill:#666}.grid{stroke:#e4e4e4;fill:none}"
    ".curve{stroke:#1f6fb4;stroke-width:1.6;fill:none}.marks{stroke:#d9541e;"
    "stroke-width:1.6;fill:none}circle{fill:#d9541e}.one{fill:#1f6fb4}"
    ".eval{color:#d9541e}@media(prefers-color-scheme:dark){body{background:#181818;"
    "color:#ddd}text{fill:#aaa}.grid{stroke:#333}td:first-child{color:#aaa}}";
} // namespace

void writeReport(const std::string &metrics, const std::string &path, const ReportFacts &facts) {
  Chart loss{"loss", {}, {}}, norm{"gradient norm", {}, {}, true},
      rate{"learning rate", {}, {}, true}, speed{facts.unit + " a second", {}, {}, true},
      memory{"memory of rank 0, MiB", {}, {}, true};
  LineReader lines(metrics);
  int64_t steps = 0, strange = 0;
  for (std::string text; lines.next(text);) {
    nlohmann::json object;
    try {
      object = parseJson(text);
    } catch (const std::exception &) {
      continue;
    }
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer())
      continue;
    double step = object["step"].get<double>();
    ++steps;
    auto add = [&](Curve &curve, const char *key, double scale) {
      auto found = object.find(key);
      if (found != object.end() && found->is_number())
        curve.push_back({step, found->get<double>() * scale});
    };
    strange += object.contains("loss") && object["loss"].is_null();
    add(loss.curve, "loss", 1);
    add(loss.marks, "eval_loss", 1);
    add(norm.curve, "grad_norm", 1);
    add(rate.curve, "lr", 1);
    add(speed.curve, "tokens_per_s", facts.unitsPerToken);
    add(memory.curve, "memory_bytes", 1 / 1048576.0);
  }
  std::string html = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                     "<title>" +
                     escaped(facts.title) + "</title><style>" + style +
                     "</style></head><body>\n<h1>" + escaped(facts.title) + "</h1>\n<table>\n";
  auto row = [&](const std::string &what, const std::string &value) {
    html += "<tr><td>" + escaped(what) + "</td><td>" + escaped(value) + "</td></tr>\n";
  };
  for (const auto &[what, value] : facts.rows)
    row(what, value);
  row("steps recorded", std::to_string(steps));
  if (!loss.curve.empty())
    row("loss, first and last",
        format("%.5f, %.5f", loss.curve.front().value, loss.curve.back().value));
  if (!loss.marks.empty())
    row("evaluation, first and last",
        format("%.5f, %.5f", loss.marks.front().value, loss.marks.back().value));
  if (strange > 0)
    row("steps without a finite loss", std::to_string(strange));
  html += "</table>\n";
  if (!loss.marks.empty())
    html += "<p><span class=\"eval\">&#9679;</span> evaluation</p>\n";
  html += "<main>\n";
  for (const Chart *chart : {&loss, &norm, &rate, &speed, &memory})
    html += drawn(*chart);
  html += "</main>\n<p>Steps count from 0, as in metrics.jsonl.</p></body></html>\n";
  replaceFile(path, html);
}

} // namespace shale::rt
