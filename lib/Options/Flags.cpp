//===- Flags.cpp - How flags of shalec are parsed and printed -------------===//
#include "lib/Options/Flags.h"
#include "lib/Options/Knobs.h"
#include "lib/Support/Words.h"
#include "lib/Target/Target.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using llvm::StringRef;

using O = CompileOptions;

namespace {

/// Accessors of a member whose type has a text (Policies.h).
template <auto Member> std::string set(O &o, StringRef v) { return parseText(v, o.*Member); }
template <auto Member> std::string get(const O &o) { return textOf(o.*Member); }

template <auto Member> std::string setString(O &o, StringRef v) {
  o.*Member = v.str();
  return "";
}
template <auto Member> std::string getString(const O &o) { return o.*Member; }

template <auto Member> std::string append(O &o, StringRef v) {
  (o.*Member).push_back(v.str());
  return "";
}

template <auto Member> std::string setBool(O &o, StringRef v) {
  std::string word = v.lower();
  bool isTrue = llvm::is_contained({"true", "on", "yes", "1"}, word);
  bool known = isTrue || llvm::is_contained({"false", "off", "no", "0"}, word);
  o.*Member = isTrue;
  return known ? "" : ("'" + v + "' is not one of true, false").str();
}
/// Sets a flag without a value to `Value`. A pipeline of a stage can give it one: false undoes it.
template <auto Member, bool Value = true> std::string setOn(O &o, StringRef v) {
  std::string wrong = setBool<Member>(o, v.empty() ? "true" : v);
  o.*Member = o.*Member == Value;
  return wrong;
}
/// Sets a flag that is on without a value.
template <auto Member> std::string setSwitch(O &o, StringRef v) {
  return setBool<Member>(o, v.empty() ? "true" : v);
}
template <auto Member> std::string getBool(const O &o) { return o.*Member ? "true" : "false"; }

template <auto Member, int Low, int High> std::string setNumber(O &o, StringRef v) {
  if (!v.getAsInteger(10, o.*Member) && o.*Member >= Low && o.*Member <= High)
    return "";
  return ("expects a number from " + llvm::Twine(Low) + " to " + llvm::Twine(High) + "; got '" + v +
          "'")
      .str();
}
template <auto Member> std::string getNumber(const O &o) { return std::to_string(o.*Member); }

/// Splits "name=value"; returns false if one is missing.
bool splitPair(StringRef text, std::pair<std::string, std::string> &pair) {
  auto [name, value] = text.split('=');
  pair = {name.str(), value.str()};
  return !name.empty() && !value.empty();
}

std::string notPair(StringRef text) { return ("expects NAME=VALUE; got '" + text + "'").str(); }

std::string setDim(O &o, StringRef v) {
  std::pair<std::string, std::string> pair;
  if (!splitPair(v, pair))
    return notPair(v);
  DimSize dim{pair.first, std::nullopt};
  StringRef size = pair.second;
  dim.perRank = size.consume_back("/rank");
  if (int64_t number; size != "max") {
    if (size.getAsInteger(10, number) || number < 1)
      return pair.first + " expects a positive size, N or N/rank, or max; got '" + pair.second +
             "'";
    dim.size = number;
  }
  o.dims.push_back(std::move(dim));
  return "";
}

std::string setBind(O &o, StringRef v) {
  return splitPair(v, o.binds.emplace_back()) ? "" : notPair(v);
}

std::string setInserted(O &o, StringRef v) {
  auto [stage, passes] = v.split(':').second.split(':');
  if (!v.starts_with("after:") || stage.empty() || passes.empty())
    return ("expects after:STAGE:PASSES; got '" + v + "'").str();
  o.inserted.push_back({stage.str(), passes.str()});
  return "";
}

std::string getInserted(const O &o) {
  std::string text;
  for (const auto &[stage, passes] : o.inserted)
    text += stage + ":" + passes + ";";
  return text;
}

std::string setMesh(O &o, StringRef v) {
  int64_t ranks = 1;
  if (!v.getAsInteger(10, ranks) && ranks > 0)
    return ("'" + v + "' names no axis: --mesh fsdp=" + v).str();
  return parseText(v, o.mesh);
}

std::string listMachines(StringRef separator) {
  std::vector<StringRef> names;
  for (const Rates *rates : knownRates())
    names.push_back(rates->name);
  return llvm::join(names, separator);
}

std::string setMachine(O &o, StringRef v) {
  o.machine = ratesNamed(v);
  o.machineFile = o.machine ? "" : v.str();
  return o.machine || v.ends_with(".toml") ? ""
                                           : ("'" + v + "' is not one of " + listMachines(", ") +
                                              ", nor a machine file, whose name ends in .toml")
                                                 .str();
}

std::string setMemoryLimit(O &o, StringRef v) { return parseMemoryLimit(v, o.memoryLimit); }

constexpr Word<Emit> kEmits[] = {{"nn", Emit::NN},         {"dist", Emit::Dist},
                                 {"rt", Emit::RT},         {"llvm", Emit::LLVM},
                                 {"object", Emit::Object}, {"program", Emit::Program}};

constexpr Word<EmbedPath> kEmbedPaths[] = {{"relative", EmbedPath::Relative},
                                           {"absolute", EmbedPath::Absolute}};

std::string setEmbedPath(O &o, StringRef v) { return parseWord(kEmbedPaths, v, o.embedPath); }

std::string setEmit(O &o, StringRef v) { return parseWord(kEmits, v, o.emit); }

constexpr Word<ReportKind> kReports[] = {{"memory", ReportKind::Memory},
                                         {"comm", ReportKind::Comm},
                                         {"numerics", ReportKind::Numerics},
                                         {"kernels", ReportKind::Kernels}};

std::string addReport(O &o, StringRef v) {
  auto [kind, path] = v.split('=');
  Report report;
  if (v.contains('='))
    report.path = path.str();
  std::string wrong = parseWord(kReports, kind, report.kind);
  o.reports.push_back(std::move(report));
  return wrong;
}

std::string setRemarksFilter(O &o, StringRef v) {
  o.remarksFilter = v.str();
  o.remarks |= !v.empty();
  return "";
}

std::string setComparison(O &o, StringRef v) { return parseComparison(v, o.compare); }

/// Replaces {optimizers}, {optimizer}, {machines} and {targets} in the help of a flag.
std::string withNames(std::string help) {
  const std::pair<const char *, std::string> names[] = {
      {"{optimizers}", nn::listOptimizers(" | ")},
      {"{optimizer}", nn::getOptimizers().front()->name.str()},
      {"{machines}", listMachines(" | ")},
      {"{targets}", llvm::join(getTargetNames(), " | ")}};
  for (const auto &[mark, text] : names)
    if (size_t at = help.find(mark); at != std::string::npos)
      help.replace(at, StringRef(mark).size(), text);
  return help;
}

std::vector<Flag> makeFlags() {
  std::vector<Flag> flags = {
#define GET_FLAGS
#include "lib/Options/Options.h.inc"
  };
  for (Flag &flag : flags)
    flag.help = withNames(std::move(flag.help));
  return flags;
}

} // namespace

StringRef shale::nameOf(ReportKind kind) { return wordOf(kReports, kind); }

StringRef shale::nameOf(Emit emit) { return wordOf(kEmits, emit); }

llvm::ArrayRef<Flag> shale::allFlags() {
  static const std::vector<Flag> flags = makeFlags();
  return flags;
}

const Flag *shale::flagNamed(StringRef name) {
  const Flag *flag = llvm::find_if(allFlags(), [&](const Flag &each) { return each.name == name; });
  return flag == allFlags().end() ? nullptr : flag;
}
