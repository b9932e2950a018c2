//===- Options.cpp - The flags of shalec ----------------------------------===//
//
// Uses CLI11 rather than llvm::cl: the flags stay separate from the hundreds that
// LLVM's libraries register, help is grouped, and an error is exit code 64.
//
//===----------------------------------------------------------------------===//
#include "tools/driver/Options.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Support/ByteSize.h"
#include "lib/Support/MeshSpec.h"
#include "lib/Target/Target.h"
#include "passes/memory/Offload.h"
#include "shale/InitAll.h"
#include "shale/Runtime.h"
#include "tools/driver/Words.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"
#include <CLI/CLI.hpp>

using namespace shale;
using llvm::SmallVector;
using llvm::StringRef;

namespace {

std::vector<std::string> optimizerNames() {
  std::vector<std::string> names;
  for (const nn::Optimizer *optimizer : nn::getOptimizers())
    names.push_back(optimizer->name.str());
  return names;
}

/// Checks for one of `choices`; suggests Shale's value for a value of another framework.
CLI::Validator oneOf(const char *flag, std::vector<std::string> choices) {
  return CLI::Validator(
      [flag, choices = std::move(choices)](std::string &text) -> std::string {
        if (llvm::is_contained(choices, text))
          return "";
        if (std::string ours = flagForForeignValue(flag, text); !ours.empty())
          return "'" + text + "' is " + ours + " here";
        return "'" + text + "' is none of " + llvm::join(choices, ", ");
      },
      "");
}

/// Runs `check`, for flags with open sets of values; suggests Shale's value for a value of another
/// framework.
CLI::Validator foreign(const char *flag, std::string (*check)(StringRef)) {
  return CLI::Validator(
      [flag, check](std::string &text) -> std::string {
        std::string wrong = check ? check(text) : "";
        std::string ours = wrong.empty() && check ? "" : flagForForeignValue(flag, text);
        return ours.empty() ? wrong : "'" + text + "' is " + ours + " here";
      },
      "");
}

/// Rejects a value of another framework and suggests Shale's; other errors are left to the flag's
/// type.
CLI::Validator noForeign(const char *flag) { return foreign(flag, nullptr); }

CLI::Validator inRange(int low, int high) {
  CLI::Validator check = CLI::Range(low, high);
  return check.description("");
}

std::string checkOffload(StringRef text) {
  OffloadPolicy policy;
  return parseOffload(text, policy);
}

/// Checks the syntax of --recompute; names are checked against the model later.
std::string checkRecomputeWord(StringRef text) {
  StringRef word = text;
  bool named =
      word.consume_front("class:") || word.consume_front("match:") || word.consume_front("block:");
  if (named ? !word.empty() : llvm::is_contained({"none", "block", "selective", "auto"}, word))
    return "";
  return ("'" + text +
          "' is none of none, block[:FRACTION], selective, auto, class:NAME, match:REGEX")
      .str();
}

/// Checks the syntax of --unit; the stage that cuts units checks the rest.
std::string checkUnitWord(StringRef text) {
  StringRef word = text.split(':').first;
  if (text == "block" ||
      (text.contains(':') && llvm::is_contained({"class", "size", "match"}, word)))
    return "";
  return ("'" + text + "' is none of block, class:NAME, size:BYTES, match:REGEX").str();
}

std::string checkBool(StringRef text) {
  bool known =
      llvm::is_contained({"true", "false", "on", "off", "yes", "no", "1", "0"}, text.lower());
  return known ? "" : ("'" + text + "' is none of true, false").str();
}

std::string checkMeshWord(StringRef text) {
  MeshSpec mesh;
  int64_t ranks = 1;
  if (!text.getAsInteger(10, ranks) && ranks > 0)
    return ("'" + text + "' names no axis: --mesh fsdp=" + text).str();
  if (std::string wrong = parseMesh(text, mesh); !wrong.empty())
    return wrong;
  for (auto [name, kind, size] : llvm::zip(mesh.names, mesh.kinds, mesh.sizes))
    if (kind == dist::AxisKind::Tensor && size > 1)
      return ("mesh '" + text + "' has an axis " + name + " of " + llvm::Twine(size) +
              ", which would split nothing: there is no tensor parallelism yet. fsdp=" +
              llvm::Twine(mesh.ranks()) + " uses as many ranks")
          .str();
  return "";
}

/// Splits "name=value"; throws CLI::ValidationError otherwise.
std::pair<std::string, std::string> splitPair(const std::string &text, const char *flag) {
  auto [name, value] = StringRef(text).split('=');
  if (name.empty() || value.empty())
    throw CLI::ValidationError(flag, "expects NAME=VALUE; got '" + text + "'");
  return {name.str(), value.str()};
}

std::optional<Emit> emitNamed(StringRef name) {
  return llvm::StringSwitch<std::optional<Emit>>(name)
      .Case("nn", Emit::NN)
      .Case("dist", Emit::Dist)
      .Case("rt", Emit::RT)
      .Case("llvm", Emit::LLVM)
      .Case("object", Emit::Object)
      .Case("program", Emit::Program)
      .Default(std::nullopt);
}

/// Removes blank lines so that help fits a screen; headings separate the groups.
std::string withoutBlankLines(StringRef text) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  return llvm::join(lines, "\n") + "\n";
}

/// Returns the flag of `app` nearest to `word`, if near enough to be a likely typo.
std::string nearestFlag(const CLI::App &app, StringRef word) {
  std::string best;
  unsigned distance = 4;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames()) {
      unsigned d = word.edit_distance(name, true, distance);
      if (d < distance) {
        distance = d;
        best = "--" + name;
      }
    }
  return best;
}

/// Prints what is wrong with the flags, and what the user may have meant.
void reportError(const CLI::App &app, const CLI::ParseError &error, int argc, char **argv) {
  std::string notes;
  llvm::raw_string_ostream os(notes);
  bool unknown = false;
  for (int i = 1; i < argc; ++i) {
    StringRef argument(argv[i]);
    if (!argument.consume_front("--"))
      continue;
    StringRef word = argument.split('=').first;
    if (app.get_option_no_throw("--" + word.str()))
      continue;
    if (!unknown)
      llvm::errs() << "shalec: error: unknown flag --" << word << "\n";
    unknown = true;
    std::string plain = word.lower();
    std::replace(plain.begin(), plain.end(), '_', '-');
    if (app.get_option_no_throw("--" + plain))
      os << "shalec: note: did you mean --" << plain << "?\n";
    else if (isProgramFlag(plain))
      os << "shalec: note: --" << plain
         << " is a flag of the program that shalec makes, at run time: ./train --" << plain
         << " ..\n";
    else if (StringRef ours = flagForForeignWord(plain); !ours.empty())
      os << "shalec: note: --" << word << " is " << ours << " here\n";
    else if (std::string near = nearestFlag(app, plain); !near.empty())
      os << "shalec: note: did you mean " << near << "?\n";
  }
  if (!unknown)
    llvm::errs() << "shalec: error: " << error.what() << "\n";
  llvm::errs() << notes;
}

/// Chooses the strategy if none was typed: full if a shard axis has more than one rank.
void chooseShard(CompileOptions &o) {
  MeshSpec mesh;
  if (o.typed.count("shard") || !parseMesh(o.mesh, mesh).empty())
    return;
  if (mesh.ranksOf(dist::AxisKind::Shard) > 1)
    o.shard = "full";
}

} // namespace

int64_t shale::reductionBucket(const CompileOptions &options) {
  return options.bucketSize.value_or(options.gathersUnits() ? 0 : 25 << 20);
}

ParsedOptions shale::parseOptions(int argc, char **argv) {
  CompileOptions o;
  std::vector<std::string> dims, binds, inserted;
  std::string emit = "program", bucketSize;
  bool noRecover = false;
  CLI::App app{"Compiles a transformer training graph (ONNX) into a sharded training program.",
               "shalec"};
  app.get_formatter()->column_width(38);
  app.option_defaults()->always_capture_default(false);
  app.set_help_all_flag("--help-all", "print the flags for people who extend Shale, too");
  app.set_version_flag("--version", "shalec 0.1.0 (LLVM 22)");

  app.add_option("MODEL", o.model, "ONNX file")->required()->type_name("");
  app.add_option("-o", o.output, "output file (default: train; - is standard output for text)")
      ->type_name("FILE");

  const char *in = "Model";
  app.add_option(
         "--dim", dims,
         "size of a named dimension: batch=8 of the whole program, batch=2/rank of a rank, batch=max that fits --memory-limit")
      ->type_name("NAME=N")
      ->allow_extra_args(false)
      ->group(in);
  app.add_option("--batch-dim", o.batchDims,
                 "input dimension that ranks share out (default: those named batch)")
      ->type_name("INPUT:D")
      ->allow_extra_args(false)
      ->group(in);
  app.add_option("--loss", o.loss,
                 "next-token:LOGITS | cross-entropy:LOGITS,LABELS | mse:OUT,TARGET")
      ->type_name("FORM")
      ->group(in);
  app.add_option("--loss-output", o.lossOutput,
                 "the output that is the loss, when several are scalars")
      ->type_name("NAME")
      ->group(in);
  app.add_option(
         "--bind", binds,
         "what an input holds: tokens, tokens+1, ones, arange, or file: the data file has a tensor of that name")
      ->type_name("INPUT=WHAT")
      ->allow_extra_args(false)
      ->group(in);
  app.add_option("--constant", o.constants,
                 "an initializer that depends on no parameter, whatever it looks like")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->group(in);
  app.add_flag("--keep-prefix", o.keepPrefix,
               "keep the exporting wrapper's prefix of parameter names")
      ->group(in);
  app.add_flag(
         "--assume-autocast", o.assumeAutocast,
         "blocks under torch.no_grad() or torch.autocast(), which the file does not tell apart, are autocast: gradients pass")
      ->group(in);
  app.add_flag("--no-recover", noRecover,
               "do not recover attention, norms and activations from their parts")
      ->group(in);

  const char *train = "Training";
  app.add_option("--optimizer", o.optimizer,
                 nn::listOptimizers(" | ") +
                     " (default: " + nn::getOptimizers().front()->name.str() + ")")
      ->check(oneOf("optimizer", optimizerNames()))
      ->type_name("NAME")
      ->group(train);
  app.add_option("--freeze", o.freeze, "parameters that are not trained")
      ->type_name("REGEX")
      ->group(train);
  app.add_option("--no-decay", o.noDecay, "parameters without weight decay")
      ->type_name("REGEX")
      ->group(train);

  app.add_option("--accumulate", o.accumulate,
                 "micro-batches a step, of --dim batch each (default: 1)")
      ->check(inRange(1, 65535))
      ->type_name("K")
      ->group(train);

  const char *precision = "Precision";
  app.add_option(
         "--param-dtype", o.paramDtype,
         "f32 | bf16 | f16: parameters at use, activations, gathers (default: what the model is in)")
      ->check(oneOf("param-dtype", {"f32", "bf16", "f16"}))
      ->type_name("TYPE")
      ->group(precision);
  app.add_option("--reduce-dtype", o.reduceDtype,
                 "f32 | bf16 | f16: gradients summed over ranks (default: f32)")
      ->check(oneOf("reduce-dtype", {"f32", "bf16", "f16"}))
      ->type_name("TYPE")
      ->group(precision);
  app.add_option("--buffer-dtype", o.bufferDtype, "f32 | bf16 | f16 (default: f32)")
      ->check(oneOf("buffer-dtype", {"f32", "bf16", "f16"}))
      ->type_name("TYPE")
      ->group(precision);
  app.add_option("--master-dtype", o.masterDtype,
                 "f32 | none: parameters at rest; none: in the param dtype (default: f32)")
      ->check(oneOf("master-dtype", {"f32", "none"}))
      ->type_name("TYPE")
      ->group(precision);
  app.add_option("--optimizer-dtype", o.optimizerDtype, "f32 | bf16: moments (default: f32)")
      ->check(oneOf("optimizer-dtype", {"f32", "bf16"}))
      ->type_name("TYPE")
      ->group(precision);

  const char *shard = "Sharding";
  app.add_option(
         "--mesh", o.mesh,
         "axes of ranks, the last varies fastest; names of your own with a kind: hosts:replica=2,gpus:shard=4 (default: fsdp=1)")
      ->check(foreign("mesh", checkMeshWord))
      ->type_name("AXIS=N,..")
      ->group(shard);
  app.add_option(
         "--shard", o.shard,
         "none (DDP) | optimizer (ZeRO-1) | grad (ZeRO-2) | full (ZeRO-3) | hybrid (full, and insist on a replica axis); default: full where the mesh has a shard axis (fsdp) of 2 or more")
      ->check(oneOf("shard", {"none", "optimizer", "grad", "full", "hybrid"}))
      ->type_name("STRATEGY")
      ->group(shard);
  app.add_option("--reshard-after-forward", o.reshardAfterForward,
                 "full: gather again for backward (default: true)")
      ->check(foreign("reshard-after-forward", checkBool))
      ->type_name("BOOL")
      ->group(shard);
  app.add_option("--unit", o.unit,
                 "block | class:NAME | size:100M | match:REGEX: what is gathered at once")
      ->check(foreign("unit", checkUnitWord))
      ->type_name("POLICY")
      ->group(shard);
  app.add_option("--prefetch", o.prefetch, "units gathered ahead of use (default: 1)")
      ->check(noForeign("prefetch"))
      ->check(inRange(0, 1000))
      ->type_name("N")
      ->group(shard);
  app.add_option("--max-gathers-in-flight", o.maxGathersInFlight,
                 "units whole or on their way at once (default: 2)")
      ->check(inRange(1, 1000))
      ->type_name("N")
      ->group(shard);

  app.add_option(
         "--bucket-size", bucketSize,
         "gradients reduced together, 25MiB or 0: one per unit (default: 0 with full and hybrid, else 25MiB)")
      ->type_name("SIZE")
      ->group(shard);
  app.add_option(
         "--order", o.order,
         "overlap | memory: reduce a bucket of gradients while the next one is made, or before that (default: overlap)")
      ->check(oneOf("order", {"overlap", "memory"}))
      ->type_name("ORDER")
      ->group(shard);
  app.add_option("--sync-every-microbatch", o.syncEveryMicrobatch,
                 "grad, full: reduce each micro-batch; false: sum whole gradients (default: true)")
      ->check(foreign("sync-every-microbatch", checkBool))
      ->type_name("BOOL")
      ->group(shard);

  const char *memory = "Memory and plan";
  app.add_option(
         "--recompute", o.recompute,
         "none | block[:0.5] | selective | auto | class:NAME | match:REGEX: what is computed again rather than kept; auto: the least time, under --memory-limit if given (default: none)")
      ->check(foreign("recompute", checkRecomputeWord))
      ->type_name("POLICY")
      ->group(memory);
  app.add_option("--offload", o.offload,
                 "none | all | params,grads,optimizer,activations[:0.5]: what the host keeps")
      ->check(foreign("offload", checkOffload))
      ->type_name("WHAT")
      ->group(memory);
  app.add_option("--threads", o.threads,
                 "threads per rank assumed by the memory plan (default: CPUs / ranks)")
      ->check(inRange(1, 65536))
      ->type_name("N")
      ->group(memory);

  const char *plan = memory; // one heading: help fits a screen
  app.add_option(
         "--memory-limit", o.memoryLimit,
         "what a rank may take, 40GiB (on a CPU of all its memory) or device=80GiB,host=100GiB; flags not typed are chosen to fit")
      ->type_name("SIZE")
      ->group(plan);
  app.add_flag("--plan-only", o.planOnly,
               "plan, print the verdict, and stop: no code, no weights needed")
      ->group(plan);
  app.add_option("--compare", o.compare,
                 "a table of plans, one for each combination: shard,recompute=none|block")
      ->type_name("FLAG,..")
      ->group(plan);
  app.add_option(
         "--report", o.reports,
         "memory | comm | numerics, or KIND=FILE (.json; memory also .html, a drawing): what is where, and when")
      ->type_name("KIND")
      ->allow_extra_args(false)
      ->group(plan);
  app.add_option("--why", o.why, "plan, say why a tensor or a node's result is in memory, and stop")
      ->type_name("TENSOR")
      ->allow_extra_args(false)
      ->group(plan);
  app.add_option("--machine", o.machine,
                 "cpu | a100 | h100 | h200: whose rates predict times (default: cpu)")
      ->check(oneOf("machine", {"cpu", "a100", "h100", "h200"}))
      ->type_name("NAME")
      ->group(plan);

  const char *out = "Output";
  registerAllTargets();
  app.add_option("--target", o.target,
                 llvm::join(getTargetNames(), " | ") + " (default: cpu:native)")
      ->type_name("TARGET")
      ->group(out);
  app.add_option("--emit", emit, "nn | dist | rt | llvm | object | program (default: program)")
      ->check(oneOf("emit", {"nn", "dist", "rt", "llvm", "object", "program"}))
      ->type_name("STAGE")
      ->group(out);
  app.add_flag(
         "--bundle", o.bundle,
         "copy the shared libraries of the program to FILE.libs beside it, for machines without them")
      ->group(out);
  app.add_option("--save-temps", o.saveTemps,
                 "write the IR after each stage, one numbered file each")
      ->type_name("DIR")
      ->group(out);
  app.add_option(
         "--compile-from", o.compileFrom,
         "MODEL is a dump of --save-temps: go on after this stage, with the flags that it records")
      ->type_name("STAGE")
      ->group(out);
  app.add_flag("--remarks", o.remarks, "print what passes decided, and every repair of the model")
      ->group(out);
  app.add_option("--remarks-filter", o.remarksFilter,
                 "print the remarks of passes whose name matches, or of import")
      ->type_name("REGEX")
      ->group(out);
  app.add_flag("--describe", o.describe,
               "print what the model is, and the commands that compile and train it")
      ->group(out);

  // In --help-all only.
  bool all = llvm::is_contained(llvm::ArrayRef(argv, argc), StringRef("--help-all"));
  const char *extend = all ? "Extending Shale" : "";
  app.add_flag("--save-temps-passes", o.savePasses, "with --save-temps: after each pass too")
      ->group(extend);
  app.add_option("--load-pass-plugin", o.plugins,
                 "a shared library with passes, dialects and operators (docs/plugins.md)")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group(extend);
  app.add_option("--insert-pass", inserted,
                 "after:STAGE:PASSES: run these passes, of Shale or a plug-in, after a stage")
      ->type_name("WHERE")
      ->allow_extra_args(false)
      ->group(extend);
  app.add_flag("--mlir-print-ir-after-all", o.printPasses,
               "print the IR to standard error after each pass that changes it")
      ->group(extend);
  app.add_option("--mlir-pass-pipeline-crash-reproducer", o.crashReproducer,
                 "where a stage fails, write its input and passes, for shale-opt --run-reproducer")
      ->type_name("FILE")
      ->group(extend);

  try {
    app.parse(argc, argv);
    for (const std::string &dim : dims)
      o.dims.push_back(splitPair(dim, "--dim"));
    if (!bucketSize.empty()) {
      std::optional<int64_t> bytes = parseByteSize(bucketSize);
      if (!bytes)
        throw CLI::ValidationError("--bucket-size",
                                   "expects a size such as 25MiB, or 0; got '" + bucketSize + "'");
      o.bucketSize = *bytes;
    }
    for (const std::string &bind : binds)
      o.binds.push_back(splitPair(bind, "--bind"));
    for (StringRef insertion : inserted) {
      auto [stage, passes] = insertion.split(':').second.split(':');
      if (!insertion.starts_with("after:") || stage.empty() || passes.empty())
        throw CLI::ValidationError("--insert-pass",
                                   "expects after:STAGE:PASSES; got '" + insertion.str() + "'");
      o.inserted.push_back({stage.str(), passes.str()});
    }
  } catch (const CLI::Success &asked) {
    bool version = dynamic_cast<const CLI::CallForVersion *>(&asked);
    llvm::outs() << (version ? std::string(asked.what()) + "\n" : withoutBlankLines(app.help()));
    return {std::nullopt, SHALE_EXIT_OK};
  } catch (const CLI::ParseError &error) {
    reportError(app, error, argc, argv);
    return {std::nullopt, SHALE_EXIT_USAGE};
  }
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && !option->get_lnames().empty()) {
      o.typed.insert(option->get_lnames().front());
      for (const std::string &value : option->results())
        o.flags.push_back({option->get_lnames().front(), value});
    }
  if (o.recompute == "auto") {
    o.recomputeAuto = true;
    o.recompute = "none";
    o.typed.erase("recompute");
  }
  o.argv.assign(argv, argv + argc);
  for (int i = 1; i < argc; ++i) {
    StringRef word = argv[i];
    if (word == "-o")
      ++i;
    else if (word != "--describe" && word != "--remarks" && !word.starts_with("-o"))
      o.words.push_back(argv[i]);
  }
  chooseShard(o);
  o.recover = !noRecover;
  o.remarks |= !o.remarksFilter.empty();
  o.emit = *emitNamed(emit);
  if (o.output.empty())
    o.output = o.emit == Emit::Program ? "train" : o.emit == Emit::Object ? "train.o" : "-";
  return {o, 0};
}
