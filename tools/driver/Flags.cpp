//===- Flags.cpp - The table of shalec's flags ----------------------------===//
#include "tools/driver/Flags.h"
#include "dialects/nn/UpdateFactors.h"
#include "lib/Support/Words.h"
#include "lib/Target/Target.h"
#include "shale/InitAll.h"
#include "tools/driver/Knobs.h"
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

/// Sets factors of updates by parameter.
template <nn::UpdateFactor Factor> std::string setScales(O &o, StringRef v) {
  return parseText(v, o.updateScales[nn::stringifyUpdateFactor(Factor).str()]);
}
template <nn::UpdateFactor Factor> std::string getScales(const O &o) {
  auto scales = o.updateScales.find(nn::stringifyUpdateFactor(Factor).str());
  return scales == o.updateScales.end() ? "" : textOf(scales->second);
}

template <auto Member> std::string append(O &o, StringRef v) {
  (o.*Member).push_back(v.str());
  return "";
}

/// Sets a flag without a value.
template <auto Member, bool Value = true> std::string setOn(O &o, StringRef) {
  o.*Member = Value;
  return "";
}

template <auto Member> std::string setBool(O &o, StringRef v) {
  std::string word = v.lower();
  bool isTrue = llvm::is_contained({"true", "on", "yes", "1"}, word);
  bool known = isTrue || llvm::is_contained({"false", "off", "no", "0"}, word);
  o.*Member = isTrue;
  return known ? "" : ("'" + v + "' is not one of true, false").str();
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

std::string setOptimizer(O &o, StringRef v) {
  const nn::Optimizer *found = nn::findOptimizer(v);
  if (!found)
    return ("'" + v + "' is not one of " + nn::listOptimizers(", ")).str();
  o.optimizer = found;
  return "";
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

std::string setBucketSize(O &o, StringRef v) {
  o.bucketSize = parseByteSize(v);
  return o.bucketSize ? "" : ("expects a size such as 25MiB, or 0; got '" + v + "'").str();
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

std::vector<Flag> modelFlags() {
  const char *group = "Model";
  return {
      {"dim", "NAME=N", group, Effect::Model,
       "size of a named dimension: batch=8 of the whole program, batch=2/rank of a rank, batch=max that fits --memory-limit",
       setDim, nullptr, /*repeated=*/true},
      {"batch-dim", "INPUT:D", group, Effect::Model,
       "input dimension that is split over ranks (default: dimensions named batch)",
       append<&O::batchDims>, nullptr, /*repeated=*/true},
      {"loss", "FORM", group, Effect::Model,
       "next-token:LOGITS | cross-entropy:LOGITS,LABELS | mse:OUT,TARGET | mean:OUT | sum:OUT",
       setString<&O::loss>},
      {"loss-output", "NAME", group, Effect::Model,
       "the output that is the loss, when several are scalars; or a weighted sum: lm=1,aux=0.01",
       setString<&O::lossOutput>},
      {"gradient", "P=OUTPUT", group, Effect::Model,
       "the output with the gradient of parameter P, in a graph of forward and backward (default: outputs named grad.P); none: ignore these outputs and derive the gradients",
       append<&O::gradients>, nullptr, /*repeated=*/true},
      {"bind", "INPUT=WHAT", group, Effect::Model,
       "what an input holds: tokens, tokens+1, ones, arange, or file: the data file has a tensor of that name",
       setBind, nullptr, /*repeated=*/true},
      {"dropout", "RATIO|off", group, Effect::Model,
       "the ratio of all dropouts in training mode (default: those of the file)",
       setString<&O::dropout>, getString<&O::dropout>},
  };
}

std::vector<Flag> trainingFlags() {
  const char *group = "Training";
  return {
      {"optimizer", "NAME", group, Effect::Graph,
       nn::listOptimizers(" | ") + " (default: " + nn::getOptimizers().front()->name.str() + ")",
       setOptimizer, [](const O &o) { return o.optimizer->name.str(); }, false,
       /*ofUpdates=*/true},
      {"freeze", "REGEX", group, Effect::Graph, "parameters that are not trained",
       setString<&O::freeze>, getString<&O::freeze>, false, /*ofUpdates=*/true},
      {"no-decay", "REGEX", group, Effect::Graph, "parameters without weight decay",
       setString<&O::noDecay>, getString<&O::noDecay>, false, /*ofUpdates=*/true},
      {"lr-scale", "REGEX=X,..", group, Effect::Graph, "factors on the learning rate of parameters",
       setScales<nn::UpdateFactor::LrScale>, getScales<nn::UpdateFactor::LrScale>, false,
       /*ofUpdates=*/true},
      {"accumulate", "K", group, Effect::Graph,
       "micro-batches per step, of --dim batch each (default: 1)",
       setNumber<&O::accumulate, 1, 65535>, getNumber<&O::accumulate>},
  };
}

std::vector<Flag> precisionFlags() {
  const char *group = "Precision";
  return {
      {"param-dtype", "TYPE", group, Effect::Graph,
       "f32 | bf16 | f16: parameters at use, activations, gathers (default: what the model is in)",
       set<&O::paramDtype>, get<&O::paramDtype>},
      {"reduce-dtype", "TYPE", group, Effect::Graph,
       "f32 | bf16 | f16: gradients summed over ranks (default: f32)", set<&O::reduceDtype>,
       get<&O::reduceDtype>},
      {"buffer-dtype", "TYPE", group, Effect::Graph, "f32 | bf16 | f16 (default: f32)",
       set<&O::bufferDtype>, get<&O::bufferDtype>},
      {"master-dtype", "TYPE", group, Effect::Graph,
       "f32 | none: parameters at rest; none: in the param dtype (default: f32)",
       set<&O::masterDtype>, get<&O::masterDtype>},
      {"optimizer-dtype", "TYPE", group, Effect::Graph, "f32 | bf16: moments (default: f32)",
       set<&O::optimizerDtype>, get<&O::optimizerDtype>},
  };
}

std::vector<Flag> shardingFlags() {
  const char *group = "Sharding";
  return {
      {"mesh", "AXIS=N,..", group, Effect::Graph,
       "axes of ranks, the last varies fastest; names of your own with a kind: hosts:replica=2,gpus:shard=4 (default: fsdp=1)",
       setMesh, get<&O::mesh>},
      {"shard", "STRATEGY", group, Effect::Graph,
       "none (DDP) | optimizer (ZeRO-1) | grad (ZeRO-2) | full (ZeRO-3) | hybrid (full; requires a replica axis) (default: full if the mesh has a shard axis (fsdp) of 2 or more ranks, else none)",
       set<&O::shard>, get<&O::shard>},
      {"tensor", "REGEX=HOW,..", group, Effect::Graph,
       "column | row | whole: what tensor axes (tp) split of these parameters: the outputs of their layer, its inputs, or nothing (default: what is found)",
       set<&O::tensor>, get<&O::tensor>},
      {"sequence-parallel", "HOW", group, Effect::Graph,
       "auto | true | false: tensor axes split the rows of activations between products; auto: where their number divides (default: auto)",
       set<&O::sequenceParallel>, get<&O::sequenceParallel>},
      {"reshard-after-forward", "BOOL", group, Effect::Plan,
       "full: gather again for backward (default: true)", setBool<&O::reshardAfterForward>,
       getBool<&O::reshardAfterForward>},
      {"unit", "POLICY", group, Effect::Graph,
       "block | class:NAME | size:100M | match:REGEX: what is gathered at once", set<&O::unit>,
       get<&O::unit>},
      {"prefetch", "N", group, Effect::Plan, "units gathered ahead of use (default: 1)",
       setNumber<&O::prefetch, 0, 1000>, getNumber<&O::prefetch>},
      {"max-gathers-in-flight", "N", group, Effect::Plan,
       "units that may be whole or in flight at once (default: 2)",
       setNumber<&O::maxGathersInFlight, 1, 1000>, getNumber<&O::maxGathersInFlight>},
      {"bucket-size", "SIZE", group, Effect::Plan,
       "bytes of gradients reduced together, such as 25MiB; 0: one unit at a time (default: 0 with full and hybrid, else 25MiB)",
       setBucketSize, [](const O &o) { return o.bucketSize ? byteSizeText(*o.bucketSize) : ""; }},
      {"order", "ORDER", group, Effect::Plan,
       "overlap | memory: reduce a bucket of gradients while the next one is computed, or before it is computed (default: overlap)",
       set<&O::order>, get<&O::order>},
      {"sync-every-microbatch", "BOOL", group, Effect::Graph,
       "grad, full, hybrid: reduce the gradients of each micro-batch; false: sum whole gradients, reduce once per step (default: true)",
       setBool<&O::syncEveryMicrobatch>, getBool<&O::syncEveryMicrobatch>},
  };
}

std::vector<Flag> memoryFlags() {
  const char *group = "Memory and plan";
  return {
      {"recompute", "POLICY", group, Effect::Plan,
       "none | block[:0.5] | selective | auto | class:NAME | match:REGEX: forward results to recompute instead of keep; auto: the fastest of these, under --memory-limit if given (default: none)",
       set<&O::recompute>, get<&O::recompute>},
      {"loss-chunk", "ROWS", group, Effect::Plan,
       "auto | off | N: rows of logits in memory at once; off: all; auto: all if they take less than 64 MiB, else the target's number (default: auto)",
       set<&O::lossChunk>, get<&O::lossChunk>},
      {"deterministic", "BOOL", group, Effect::Plan,
       "library calls give the same bits in every run; false: a faster gradient of attention with less memory (default: true)",
       setBool<&O::deterministic>, getBool<&O::deterministic>},
      {"allow-tf32", nullptr, group, Effect::Plan,
       "GPUs: products of f32 round their operands to TF32, 11 significant bits",
       setSwitch<&O::allowTf32>, getBool<&O::allowTf32>},
      {"offload", "WHAT", group, Effect::Plan,
       "none | all | params,grads,optimizer,activations, or a share of one (optimizer:0.5): kept in host memory",
       set<&O::offload>, get<&O::offload>},
      {"threads", "N", group, Effect::Plan,
       "threads per rank assumed by the memory plan (default: CPUs / ranks)",
       setNumber<&O::threads, 1, 65536>, getNumber<&O::threads>},
      {"memory-limit", "SIZE", group, Effect::Choice,
       "limit of memory per rank: 40GiB (on a CPU: device and host together) or device=80GiB,host=100GiB; flags that are not given are chosen to fit",
       setMemoryLimit},
      {"plan-only", nullptr, group, Effect::Report,
       "plan, print the verdict, and stop: no code, no weights needed", setOn<&O::planOnly>},
      {"compare", "FLAG,..", group, Effect::Report,
       "a table of plans, one for each combination: shard,recompute=none|block",
       [](O &o, StringRef v) { return parseComparison(v, o.compare); }},
      {"report", "KIND", group, Effect::Report,
       "print a report: memory | comm | numerics | kernels; KIND=FILE writes it to a file (.json; memory also .html)",
       addReport, nullptr, /*repeated=*/true},
      {"why", "TENSOR", group, Effect::Report,
       "plan, say why a tensor or a node's result is in memory, and stop", append<&O::why>, nullptr,
       /*repeated=*/true},
      {"machine", "NAME", group, Effect::Choice,
       listMachines(" | ") + " | FILE.toml: whose rates predict times (default: that of --target)",
       setMachine},
  };
}

std::vector<Flag> outputFlags() {
  const char *group = "Output";
  return {
      {"target", "TARGET", group, Effect::Model,
       llvm::join(getTargetNames(), " | ") + " (default: cpu:native)", setString<&O::target>},
      {"emit", "STAGE", group, Effect::Report,
       "nn | dist | rt | llvm | object | program (default: program)", setEmit},
      {"bundle", nullptr, group, Effect::Program,
       "copy the shared libraries of the program to FILE.libs beside it, for machines without them",
       setOn<&O::bundle>},
      {"remarks", nullptr, group, Effect::Report,
       "print what passes decided, and every repair of the model", setOn<&O::remarks>},
      {"describe", nullptr, group, Effect::Report,
       "print inputs, parameters, blocks and loss of the model, and the commands that compile and train it",
       setOn<&O::describe>},
  };
}

std::vector<Flag> extendFlags() {
  return {
      {"product-dtype", "TYPE", kExtendGroup, Effect::Graph,
       "param | fp8: operands of products with parameters; fp8: e4m3, gradients e5m2 (default: the param dtype)",
       set<&O::productDtype>, get<&O::productDtype>},
      {"param-rounding", "HOW", kExtendGroup, Effect::Graph,
       "nearest | stochastic: with --master-dtype none, how new parameters of bf16 are rounded (default: nearest)",
       set<&O::paramRounding>, get<&O::paramRounding>},
      {"wire-dtype", "TYPE", kExtendGroup, Effect::Graph,
       "none | gather=int8|bf16|f16,reduce=int8,tensor=f32: parameters of f32 gathered in 16 bits, or parameters gathered, gradients summed as 8-bit integers with a scale per 256 of them; sums over tensor axes in f32, not in the param dtype; any of them (default: none)",
       set<&O::wire>, get<&O::wire>},
      {"optimizer-for", "REGEX=NAME,..", kExtendGroup, Effect::Graph,
       "with muon: muon or adamw, by parameter (default: muon: hidden matrices)",
       set<&O::optimizers>, get<&O::optimizers>, false, /*ofUpdates=*/true},
      {"embed-path", "HOW", kExtendGroup, Effect::Program,
       "relative | absolute: paths of the weights in the program, from its folder or from the root (default: relative if the model is in that folder or below it)",
       setEmbedPath},
      {"attention", "HOW", kExtendGroup, Effect::Plan,
       "auto: the target's library where it supports the attention (docs/guide/gpu.md) | generated: products and generated kernels (default: auto)",
       set<&O::attention>, get<&O::attention>},
      {"fast-math", nullptr, kExtendGroup, Effect::Plan,
       "GPUs: exp, tanh and divisions in kernels by the hardware's approximations, of 21, 11 and 22 bits",
       setSwitch<&O::fastMath>, getBool<&O::fastMath>},
      {"constant", "NAME", kExtendGroup, Effect::Model,
       "treat this initializer as a constant that depends on no parameter", append<&O::constants>,
       nullptr, /*repeated=*/true},
      {"remarks-filter", "REGEX", kExtendGroup, Effect::Report,
       "print the remarks of passes whose name matches, or of import", setRemarksFilter},
      {"keep-prefix", nullptr, kExtendGroup, Effect::Model,
       "keep the first component that all parameter names share, such as that of an export wrapper",
       setOn<&O::keepPrefix>},
      {"assume-autocast", nullptr, kExtendGroup, Effect::Model,
       "assume that blocks exported under torch.no_grad() or torch.autocast() are autocast, so that gradients flow through them; the file does not distinguish the two",
       setOn<&O::assumeAutocast>},
      {"assume-derivative", "FUNCTION", kExtendGroup, Effect::Model,
       "assume that the backward of this torch.autograd.Function, which is not in the file, is the derivative of its forward; FUNCTION is its class, or FILE:LINE of its call",
       append<&O::assumeDerivative>, nullptr, /*repeated=*/true},
      {"assume-form", "OPERATION", kExtendGroup, Effect::Model,
       "take the nodes of this operation, such as aten.mul.Tensor, as they are, if PyTorch's exporter wrote them in another form than shalec expects",
       append<&O::assumeForm>, nullptr, /*repeated=*/true},
      {"assume-merged", "OPERATION", kExtendGroup, Effect::Model,
       "assume that operations of this kind, such as aten.softmax.int, which the export merged with others have the same gradients: the file does not show whether one was detached",
       append<&O::assumeMerged>, nullptr, /*repeated=*/true},
      {"assume-tied", "true|false", kExtendGroup, Effect::Model,
       "true: transposed weights of a file of TorchScript's exporter that begin with equal elements are one parameter, where the file does not show it | false: each is a parameter of its own",
       setBool<&O::assumeTied>},
      {"keep-single-rank-collectives", "BOOL", kExtendGroup, Effect::Graph,
       "keep collectives along axes of one rank, to check a communicator on one device (default: false)",
       setBool<&O::keepSingleRank>, getBool<&O::keepSingleRank>},
      {"no-recover", nullptr, kExtendGroup, Effect::Model,
       "do not recover attention, norms and activations from their parts",
       setOn<&O::recover, false>},
      {"compile-from", "STAGE", kExtendGroup, Effect::Report,
       "continue after this stage from MODEL, a dump of --save-temps, with the flags that the dump records",
       setString<&O::compileFrom>},
      {"save-temps", "DIR", kExtendGroup, Effect::Report,
       "write the IR after each stage, one numbered file each", setString<&O::saveTemps>},
      {"save-temps-passes", nullptr, kExtendGroup, Effect::Report,
       "with --save-temps: after each pass too", setOn<&O::savePasses>},
      {"no-advice", nullptr, kExtendGroup, Effect::Report,
       "do not plan what other flags would change: a small program compiles faster by a sixth",
       setOn<&O::advice, false>},
      {"load-pass-plugin", "FILE", kExtendGroup, Effect::Model,
       "a shared library with passes, dialects and operators (docs/plugins.md)",
       append<&O::plugins>, nullptr, /*repeated=*/true},
      {"insert-pass", "WHERE", kExtendGroup, Effect::Graph,
       "after:STAGE:PASSES: run these passes, of Shale or a plug-in, after a stage", setInserted,
       getInserted, /*repeated=*/true},
      {"mlir-print-ir-after-all", nullptr, kExtendGroup, Effect::Report,
       "print the IR to standard error after each pass that changes it", setOn<&O::printPasses>},
      {"mlir-pass-pipeline-crash-reproducer", "FILE", kExtendGroup, Effect::Report,
       "where a stage fails, write its input and passes, for shale-opt --run-reproducer",
       setString<&O::crashReproducer>},
  };
}

std::vector<Flag> makeFlags() {
  registerAllTargets();
  std::vector<Flag> flags;
  for (auto groupFlags : {modelFlags, trainingFlags, precisionFlags, shardingFlags, memoryFlags,
                          outputFlags, extendFlags})
    llvm::append_range(flags, groupFlags());
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
