//===- Policies.cpp - Values of flags and of passes' options --------------===//
#include "lib/Support/Policies.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Support/ByteSize.h"
#include "lib/Support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace shale;
using llvm::StringRef;

dist::Strategy shale::strategyOf(Sharding sharding) {
  switch (sharding) {
  case Sharding::None:
    return dist::Strategy::None;
  case Sharding::Optimizer:
    return dist::Strategy::Optimizer;
  case Sharding::Grad:
    return dist::Strategy::Grad;
  case Sharding::Full:
  case Sharding::Hybrid:
    return dist::Strategy::Full;
  }
  llvm_unreachable("all strategies are listed");
}

static constexpr Word<Sharding> kShardings[] = {{"none", Sharding::None},
                                                {"optimizer", Sharding::Optimizer},
                                                {"grad", Sharding::Grad},
                                                {"full", Sharding::Full},
                                                {"hybrid", Sharding::Hybrid}};
static constexpr Word<FloatKind> kFloatKinds[] = {
    {"f32", FloatKind::F32}, {"bf16", FloatKind::BF16}, {"f16", FloatKind::F16}};
static constexpr Word<MasterKind> kMasterKinds[] = {{"f32", MasterKind::F32},
                                                    {"none", MasterKind::None}};
static constexpr Word<RoundingKind> kRoundingKinds[] = {{"nearest", RoundingKind::Nearest},
                                                        {"stochastic", RoundingKind::Stochastic}};
static constexpr Word<MatmulKind> kMatmulKinds[] = {{"param", MatmulKind::Param},
                                                    {"fp8", MatmulKind::FP8}};
static constexpr Word<MomentKind> kMomentKinds[] = {{"f32", MomentKind::F32},
                                                    {"bf16", MomentKind::BF16}};
static constexpr Word<WireKind> kWireKinds[] = {
    {"bf16", WireKind::BF16}, {"f16", WireKind::F16}, {"f32", WireKind::F32}};
static constexpr Word<AttentionKind> kAttentions[] = {{"auto", AttentionKind::Auto},
                                                      {"generated", AttentionKind::Generated}};
static constexpr Word<ReductionOrder> kOrders[] = {{"overlap", ReductionOrder::Overlap},
                                                   {"memory", ReductionOrder::Memory}};

static constexpr Word<SequenceParallel> kSequenceParallel[] = {{"auto", SequenceParallel::Auto},
                                                               {"true", SequenceParallel::On},
                                                               {"false", SequenceParallel::Off}};

std::string shale::parseText(StringRef text, Sharding &v) { return parseWord(kShardings, text, v); }
std::string shale::parseText(StringRef text, FloatKind &v) {
  return parseWord(kFloatKinds, text, v);
}
std::string shale::parseText(StringRef text, MasterKind &v) {
  return parseWord(kMasterKinds, text, v);
}
std::string shale::parseText(StringRef text, RoundingKind &v) {
  return parseWord(kRoundingKinds, text, v);
}
std::string shale::parseText(StringRef text, MatmulKind &v) {
  return parseWord(kMatmulKinds, text, v);
}
std::string shale::parseText(StringRef text, MomentKind &v) {
  return parseWord(kMomentKinds, text, v);
}
/// Returns "int8|..".
static std::string encodings() {
  std::string list;
  for (uint32_t i = 0; std::optional<dist::Encoding> each = dist::symbolizeEncoding(i); ++i)
    list += (i ? "|" : "") + dist::stringifyEncoding(*each).str();
  return list;
}

std::string shale::parseText(StringRef text, WireTypes &types) {
  types = WireTypes();
  if (text == "none")
    return "";
  llvm::SmallVector<StringRef> words;
  text.split(words, ',');
  for (StringRef word : words) {
    auto [what, type] = word.split('=');
    WireKind named = WireKind::Same;
    std::optional<dist::Encoding> encoding = dist::symbolizeEncoding(type);
    bool isWord = encoding || parseWord(kWireKinds, type, named).empty();
    if (encoding)
      named = WireKind::Encoded;
    bool isF32 = named == WireKind::F32;
    WireKind *kind = what == "gather" && !isF32     ? &types.gather
                     : what == "reduce" && encoding ? &types.reduce
                     : what == "tensor" && isF32    ? &types.tensor
                                                    : nullptr;
    if (!isWord || !kind || *kind != WireKind::Same)
      return ("expects 'none', or 'gather=" + encodings() + "|bf16|f16', 'reduce=" + encodings() +
              "' and 'tensor=f32', separated by commas; got '" + text.str() + "'");
    *kind = named;
    if (encoding)
      (kind == &types.gather ? types.gatherAs : types.reduceAs) = *encoding;
  }
  return "";
}
std::string shale::textOf(WireTypes types) {
  std::string text;
  auto add = [&](const char *what, WireKind kind, dist::Encoding as) {
    if (kind != WireKind::Same)
      text += (text.empty() ? "" : ",") + std::string(what) + "=" +
              (kind == WireKind::Encoded ? dist::stringifyEncoding(as) : wordOf(kWireKinds, kind))
                  .str();
  };
  add("gather", types.gather, types.gatherAs);
  add("reduce", types.reduce, types.reduceAs);
  add("tensor", types.tensor, {});
  return text.empty() ? "none" : text;
}

std::string shale::parseText(StringRef text, ReductionOrder &v) {
  return parseWord(kOrders, text, v);
}

std::string shale::parseText(StringRef text, AttentionKind &v) {
  return parseWord(kAttentions, text, v);
}

std::string shale::textOf(Sharding value) { return wordOf(kShardings, value).str(); }
std::string shale::textOf(FloatKind value) { return wordOf(kFloatKinds, value).str(); }
std::string shale::textOf(MasterKind value) { return wordOf(kMasterKinds, value).str(); }
std::string shale::textOf(RoundingKind value) { return wordOf(kRoundingKinds, value).str(); }
std::string shale::textOf(MatmulKind value) { return wordOf(kMatmulKinds, value).str(); }
std::string shale::textOf(MomentKind value) { return wordOf(kMomentKinds, value).str(); }
std::string shale::textOf(ReductionOrder value) { return wordOf(kOrders, value).str(); }
int64_t shale::defaultBucketBytes(dist::Strategy strategy) {
  return dist::splitsParameters(strategy) ? 0 : 25 << 20;
}
std::string shale::parseText(StringRef text, BucketSize &size) {
  size.bytes = parseByteSize(text);
  return size.bytes || text == "auto"
             ? ""
             : ("expects a size such as 25MiB, 0 or auto; got '" + text + "'").str();
}
std::string shale::textOf(BucketSize size) {
  return size.bytes ? byteSizeText(*size.bytes) : "auto";
}
std::string shale::parseText(StringRef text, const nn::Optimizer *&optimizer) {
  const nn::Optimizer *found = nn::findOptimizer(text);
  if (!found)
    return ("'" + text + "' is not one of " + nn::listOptimizers(", ")).str();
  optimizer = found;
  return "";
}
std::string shale::textOf(const nn::Optimizer *optimizer) { return optimizer->name.str(); }
std::string shale::parseText(StringRef text, SequenceParallel &v) {
  return parseWord(kSequenceParallel, text, v);
}
std::string shale::textOf(SequenceParallel value) { return wordOf(kSequenceParallel, value).str(); }
std::string shale::textOf(AttentionKind value) { return wordOf(kAttentions, value).str(); }

/// Parses a fraction from 0 to 1.
static std::string parseFraction(StringRef text, double &fraction) {
  if (!text.getAsDouble(fraction) && fraction >= 0 && fraction <= 1)
    return "";
  return ("expects a fraction from 0 to 1 after ':'; got '" + text + "'").str();
}

/// Returns the shortest text of a fraction that parses to the same value.
static std::string fractionText(double fraction) {
  for (int digits = 1;; ++digits) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%.*g", digits, fraction);
    double again;
    if (digits >= 17 || (!StringRef(text).getAsDouble(again) && again == fraction))
      return text;
  }
}

/// Units of counts of elements.
static constexpr std::pair<StringRef, int64_t> kCounts[] = {
    {"G", 1000000000}, {"M", 1000000}, {"K", 1000}};

/// Parses a count such as 100M, 100m, 1e8 or 100_000_000.
static bool parseCount(StringRef text, int64_t &count) {
  int64_t factor = 1;
  for (auto [letter, value] : kCounts)
    if (text.consume_back_insensitive(letter)) {
      factor = value;
      break;
    }
  std::string digits = text.lower();
  llvm::erase(digits, '_');
  if (double value; StringRef(digits).getAsInteger(10, count)) {
    if (digits.find_first_not_of("0123456789.e") != std::string::npos ||
        StringRef(digits).getAsDouble(value) || !(value >= 1 && value < 0x1p53) ||
        value != std::floor(value))
      return false;
    count = static_cast<int64_t>(value);
  }
  return count > 0 && !llvm::MulOverflow(count, factor, count);
}

static std::string countText(int64_t count) {
  for (auto [letter, value] : kCounts)
    if (count % value == 0)
      return std::to_string(count / value) + letter.str();
  return std::to_string(count);
}

std::string shale::parseText(StringRef text, UnitPolicy &policy) {
  policy = UnitPolicy();
  StringRef word = text;
  if (word == "block")
    return "";
  if (word.consume_front("size:")) {
    policy.kind = UnitPolicy::Size;
    if (parseCount(word, policy.size))
      return "";
    return ("size:" + word + ": expected a number of parameters such as 100M").str();
  }
  policy.kind = word.consume_front("class:") ? UnitPolicy::Class : UnitPolicy::Match;
  if (policy.kind == UnitPolicy::Match && !word.consume_front("match:"))
    return ("'" + text + "' is not one of block, class:NAME, size:N, match:REGEX").str();
  policy.name = word.str();
  return "";
}

std::string shale::textOf(const UnitPolicy &policy) {
  switch (policy.kind) {
  case UnitPolicy::Block:
    return "block";
  case UnitPolicy::Class:
    return "class:" + policy.name;
  case UnitPolicy::Size:
    return "size:" + countText(policy.size);
  case UnitPolicy::Match:
    return "match:" + policy.name;
  }
  llvm_unreachable("all kinds are listed");
}

std::string shale::parseText(StringRef text, RecomputePolicy &policy) {
  policy = RecomputePolicy();
  using Kind = RecomputePolicy::Kind;
  static constexpr Word<Kind> kKinds[] = {{"none", Kind::None},
                                          {"block", Kind::Block},
                                          {"selective", Kind::Selective},
                                          {"auto", Kind::Auto}};
  for (auto [word, kind] : kKinds)
    if (text == word) {
      policy.kind = kind;
      return "";
    }
  auto [word, rest] = text.split(':');
  if (!rest.empty()) {
    policy.name = rest.str();
    if (word == "block") {
      policy.kind = Kind::Block;
      policy.name.clear();
      return parseFraction(rest, policy.fraction);
    }
    policy.kind = word == "class" ? Kind::Class : Kind::Match;
    if (word == "class" || word == "match")
      return "";
  }
  return ("'" + text +
          "' is not one of none, block[:FRACTION], selective, auto, class:NAME, match:REGEX")
      .str();
}

std::string shale::textOf(const RecomputePolicy &policy) {
  switch (policy.kind) {
  case RecomputePolicy::None:
    return "none";
  case RecomputePolicy::Block:
    return policy.fraction == 1 ? "block" : "block:" + fractionText(policy.fraction);
  case RecomputePolicy::Selective:
    return "selective";
  case RecomputePolicy::Class:
    return "class:" + policy.name;
  case RecomputePolicy::Match:
    return "match:" + policy.name;
  case RecomputePolicy::Auto:
    return "auto";
  }
  llvm_unreachable("all kinds are listed");
}

static constexpr std::pair<StringRef, double OffloadPolicy::*> kOffloaded[] = {
    {"params", &OffloadPolicy::params},
    {"grads", &OffloadPolicy::grads},
    {"optimizer", &OffloadPolicy::optimizer},
    {"activations", &OffloadPolicy::activations}};

std::string shale::parseText(StringRef text, OffloadPolicy &policy) {
  policy = OffloadPolicy();
  if (text == "none")
    return "";
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  llvm::StringSet<> given;
  for (StringRef part : parts) {
    auto [kind, number] = part.split(':');
    if (!given.insert(kind).second || (given.contains("all") && given.size() > 1))
      return "'" + text.str() + "' says twice what becomes of " +
             (kind == "all" || given.contains("all") ? "the same" : kind.str());
    double fraction = 1;
    if (part.contains(':') && !parseFraction(number, fraction).empty())
      return "expects a fraction from 0 to 1 after ':'; got '" + part.str() + "'";
    if (kind == "all") {
      policy = {fraction, fraction, fraction, fraction};
      continue;
    }
    auto known =
        llvm::find_if(kOffloaded, [kind = kind](const auto &each) { return each.first == kind; });
    if (known == std::end(kOffloaded))
      return kind == "none"
                 ? "'none' stands alone; got '" + text.str() + "'"
                 : "'" + part.str() +
                       "' is not one of none, all, params, grads, optimizer, activations, each with :FRACTION or without";
    policy.*known->second = fraction;
  }
  return "";
}

std::string shale::textOf(const OffloadPolicy &policy) {
  auto with = [](StringRef kind, double fraction) {
    return fraction == 1 ? kind.str() : kind.str() + ":" + fractionText(fraction);
  };
  if (!policy.any())
    return "none";
  if (llvm::all_of(kOffloaded,
                   [&](const auto &each) { return policy.*each.second == policy.params; }))
    return with("all", policy.params);
  std::string text;
  for (auto [kind, member] : kOffloaded)
    if (policy.*member > 0)
      text += (text.empty() ? "" : ",") + with(kind, policy.*member);
  return text;
}

std::string shale::parseText(StringRef text, LossChunk &chunk) {
  chunk = LossChunk();
  if (text == "auto")
    return "";
  chunk.kind = text == "off" ? LossChunk::Off : LossChunk::Rows;
  if (text == "off" || (!text.getAsInteger(10, chunk.rows) && chunk.rows > 0))
    return "";
  return ("expects auto, off or a number of rows; got '" + text + "'").str();
}

std::string shale::textOf(const LossChunk &chunk) {
  return chunk.kind == LossChunk::Auto  ? "auto"
         : chunk.kind == LossChunk::Off ? "off"
                                        : std::to_string(chunk.rows);
}

/// Parses entries `REGEX=VALUE`, separated by commas. A comma before which no value stands is part
/// of the expression. Returns false if an entry lacks its expression or value.
template <typename T>
static bool parseEntries(StringRef text, llvm::function_ref<std::optional<T>(StringRef)> parse,
                         std::vector<std::pair<std::string, T>> &entries) {
  std::string regex;
  for (StringRef rest = text; !rest.empty();) {
    StringRef part;
    std::tie(part, rest) = rest.split(',');
    auto [name, word] = part.rsplit('=');
    std::optional<T> value = parse(word);
    if (!value) {
      regex += part.str() + ",";
      continue;
    }
    regex += name.str();
    if (regex.empty())
      return false;
    entries.emplace_back(std::move(regex), *value);
    regex.clear();
  }
  return regex.empty() && !text.ends_with(",");
}

std::string shale::parseText(StringRef text, TensorPlan &plan) {
  plan = TensorPlan();
  auto parse = [](StringRef word) { return dist::symbolizeTensorSplit(word); };
  if (parseEntries<dist::TensorSplit>(text, parse, plan.entries))
    return "";
  return ("expects REGEX=column|row|whole, separated by commas; got '" + text + "'").str();
}

std::string shale::parseText(StringRef text, UpdateScales &scales) {
  scales = UpdateScales();
  auto parse = [](StringRef word) -> std::optional<double> {
    double value;
    return word.getAsDouble(value) ? std::nullopt : std::optional<double>(value);
  };
  if (!parseEntries<double>(text, parse, scales.entries))
    return ("expects REGEX=X, separated by commas; got '" + text + "'").str();
  for (const auto &[regex, value] : scales.entries)
    if (!(float(value) > 0 && value <= 1e6)) // updates are computed in f32
      return "expects factors above 0 and at most 1e6; got '" + regex + "=" + fractionText(value) +
             "' (--freeze leaves parameters as they are)";
  return "";
}

std::string shale::parseText(StringRef text, OptimizerChoices &choices) {
  choices = OptimizerChoices();
  auto parse = [](StringRef word) {
    return nn::findOptimizer(word) ? std::optional(word.str()) : std::nullopt;
  };
  if (parseEntries<std::string>(text, parse, choices.entries))
    return "";
  return ("expects REGEX=NAME, separated by commas, with names of optimizers (" +
          nn::listOptimizers(", ") + "); got '" + text + "'")
      .str();
}

std::string shale::textOf(const OptimizerChoices &choices) {
  std::string text;
  for (const auto &[regex, name] : choices.entries)
    text += (text.empty() ? "" : ",") + regex + "=" + name;
  return text;
}

std::string shale::textOf(const UpdateScales &scales) {
  std::string text;
  for (const auto &[regex, value] : scales.entries)
    text += (text.empty() ? "" : ",") + regex + "=" + fractionText(value);
  return text;
}

std::string shale::textOf(const TensorPlan &plan) {
  std::string text;
  for (const auto &[regex, split] : plan.entries)
    text += (text.empty() ? "" : ",") + regex + "=" + dist::stringifyTensorSplit(split).str();
  return text;
}
