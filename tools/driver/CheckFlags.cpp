//===- CheckFlags.cpp - Checks for contradictory and unused flags ---------===//
//
// A flag that contradicts another one is an error; a flag that merely has no effect
// together with the others is a warning.
//
//===----------------------------------------------------------------------===//
#include "lib/Analysis/Report.h"
#include "lib/Support/ByteSize.h"
#include "lib/Target/Target.h"
#include "shale/Runtime.h"
#include "tools/driver/CommandLine.h"
#include "tools/driver/Messages.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace shale;

static void warn(const llvm::Twine &what) { llvm::errs() << "shalec: warning: " << what << "\n"; }
static void note(const llvm::Twine &what) { llvm::errs() << "shalec: note: " << what << "\n"; }

/// Says what a flag means that other tools have with another meaning or unit.
static void explainFlags(const CompileOptions &o) {
  std::string optimizer = o.typedText("optimizer").lower();
  if (optimizer == "adam")
    note("--optimizer adam adds the weight decay to the gradient, and epsilon before the bias "
         "correction; AdamW of PyTorch, and Adam of Megatron-LM and DeepSpeed, is "
         "--optimizer adamw");
  if (optimizer == "adafactor")
    note("--optimizer adafactor multiplies --lr by the size of each parameter, as PyTorch's; "
         "Trainer of Hugging Face takes the rate as it is");
  if (optimizer == "muon")
    note("--optimizer muon decays weights by default, as PyTorch's: --weight-decay 0.1 and "
         "--adamw-weight-decay 0.01 of the program");
  llvm::StringRef size = o.typedText("bucket-size");
  if (o.bucketSize.bytes.value_or(0) > 0 &&
      size.find_first_not_of("0123456789") == llvm::StringRef::npos)
    note("--bucket-size " + size +
         " is in bytes, not in elements: " + formatBytes(*o.bucketSize.bytes));
}

/// Returns why parameters cannot be gathered as 16-bit floats; an empty string if they can.
static std::string wrongGatherType(const CompileOptions &o) {
  bool varies = o.compares("shard") || o.compares("wire-dtype");
  if (!o.wire.gathersFloats() || varies)
    return "";
  std::string flag = "--wire-dtype " + textOf(o.wire);
  if (o.paramDtype != FloatKind::F32)
    return flag + " gathers parameters in 16 bits that are used in f32, and with --param-dtype " +
           textOf(o.paramDtype) +
           " they are used and gathered in 16 bits: leave one of the two out";
  if (o.mesh.ranksThat(dist::splitsState) == 1 && !o.keepSingleRank)
    return flag + " gathers nothing with --mesh " + textOf(o.mesh) +
           ": --mesh fsdp=N splits parameters, or leave it out";
  if (!o.gathersTrained())
    return flag + " gathers nothing with --shard " + textOf(o.shard) +
           ": --shard full, grad or optimizer splits parameters, or leave it out";
  return "";
}

/// Returns a message about contradictory flags; an empty string if there are none.
static std::string contradiction(const CompileOptions &o, const Target &target) {
  if (o.savePasses && o.saveTemps.empty())
    return "--save-temps-passes needs --save-temps DIR, where the files go";
  if (o.allowTf32 && !target.hasTf32())
    return "--allow-tf32 requires a GPU, and the target is " + o.target +
           ": give another --target or leave it out";
  if (o.fastMath && !target.hasFastMath())
    return "--fast-math requires a GPU, and the target is " + o.target +
           ": give another --target or leave it out";
  if (!o.why.empty() && !o.compare.empty())
    return "--why and --compare cannot be combined: pass one of them";
  if (o.bundle && (o.emit != Emit::Program || o.planOnly || o.describe))
    return std::string("--bundle needs a program, which ") +
           (o.planOnly   ? "--plan-only"
            : o.describe ? "--describe"
                         : "this --emit") +
           " does not make";
  if (o.bundle && llvm::sys::path::filename(o.output).find_first_of(":$") != llvm::StringRef::npos)
    return "--bundle: the loader cannot look beside a program whose name has ':' or '$': give another -o";
  const char *asks = !o.compare.empty() ? "--compare" : !o.why.empty() ? "--why" : nullptr;
  if (o.describe && asks)
    return std::string("--describe makes no plan, which ") + asks + " needs: leave one of them out";
  if (asks && !o.reports.empty())
    return std::string("--report and ") + asks + " cannot be combined: pass one of them";
  bool planned = o.planOnly || o.emit >= Emit::RT;
  for (const Report &report : o.reports) {
    std::string kind = nameOf(report.kind).str();
    bool numerics = report.kind == ReportKind::Numerics;
    if (report.path && report.path->empty())
      return "--report " + kind + "= names no file";
    if (report.kind == ReportKind::Kernels && (o.describe || o.planOnly || o.emit < Emit::LLVM))
      return "--report kernels needs compiled kernels, which " +
             (o.describe   ? "--describe"
              : o.planOnly ? "--plan-only"
                           : "--emit " + nameOf(o.emit).str()) +
             " does not make";
    if (!numerics) {
      if (!planned)
        return "--report " + kind + " needs a plan, which --emit nn and --emit dist do not make";
      if (o.describe)
        return "--report " + kind + " needs a plan, which --describe does not make";
    }
    if (numerics && (o.describe || (!o.planOnly && o.emit < Emit::Dist)))
      return "--report numerics needs a rank's program, which " +
             std::string(o.describe ? "--describe" : "--emit nn") + " does not make";
    if (report.kind != ReportKind::Memory && reportFormOf(report.file()) == ReportForm::Html)
      return "--report " + kind + " is text or JSON, not a page: give it another name than '" +
             *report.path + "'";
  }
  if (std::string wrong = wrongGatherType(o); !wrong.empty())
    return wrong;
  if (o.wire.reduce == WireKind::Encoded && o.reduceDtype != FloatKind::F32)
    return "--wire-dtype reduce=int8 rounds f32 gradients, and --reduce-dtype " +
           textOf(o.reduceDtype) + " rounds them before: leave one of the two out";
  if (o.wire.reduce == WireKind::Encoded && o.paramDtype == FloatKind::F16)
    return "--wire-dtype reduce=int8 keeps what it rounds off for the next step, which with --param-dtype f16 has "
           "another loss scale: pass --param-dtype bf16, or leave --wire-dtype reduce=int8 out";
  if (o.optimizer && o.optimizer->integerState && o.optimizerDtype != MomentKind::F32)
    return "--optimizer-dtype cannot change the state of --optimizer " + o.optimizer->name.str() +
           ", which has a type of its own: leave out --optimizer-dtype";
  if (o.roundsStochastically() && o.paramDtype == FloatKind::F16)
    return "--param-rounding stochastic is for --param-dtype bf16, not f16";
  return "";
}

int shale::checkFlags(const CompileOptions &o, const Target &target) {
  if (std::string wrong = contradiction(o, target); !wrong.empty())
    return usageError(wrong);
  explainFlags(o);
  auto typed = [&](const char *flag) { return o.typed.count(flag) > 0; };
  bool comparesShard = o.compares("shard");
  std::string shard = textOf(o.shard);
  if (typed("reshard-after-forward") && !o.reshardAfterForward && !o.gathersUnits() &&
      !comparesShard)
    warn("--reshard-after-forward=false has no effect with --shard " + shard +
         ": nothing is gathered");
  bool variesWire = comparesShard || o.compares("wire-dtype");
  if (o.wire.gather == WireKind::Encoded && !variesWire) {
    if (o.mesh.ranksThat(dist::splitsState) == 1 && !o.keepSingleRank)
      warn("--wire-dtype gather=int8 has no effect with --mesh " + textOf(o.mesh) +
           ": no parameters are gathered; --mesh fsdp=N splits them");
    else if (!o.gathersTrained())
      warn("--wire-dtype gather=int8 has no effect with --shard " + shard +
           ": no parameters are gathered; --shard full, grad and optimizer gather them");
  }
  if (o.wire.reduce == WireKind::Encoded && !variesWire && !o.keepSingleRank &&
      o.mesh.ranksThat(dist::sumsGradients) == 1)
    warn("--wire-dtype reduce=int8 has no effect with --mesh " + textOf(o.mesh) +
         ": no gradients are summed over ranks; --mesh fsdp=N or replica=N divides the batch");
  if (o.wire.tensor == WireKind::F32 && !variesWire) {
    if (o.mesh.ranksThat(dist::splitsValues) == 1)
      warn("--wire-dtype tensor=f32 has no effect with --mesh " + textOf(o.mesh) +
           ": no tensor axis splits matmuls; --mesh tp=N does");
    else if (o.paramDtype == FloatKind::F32 && !o.compares("param-dtype"))
      warn("--wire-dtype tensor=f32 has no effect with --param-dtype f32: sums are sent in f32");
  }
  if (o.paramRounding == RoundingKind::Stochastic && !o.roundsStochastically() &&
      !o.compares("master-dtype"))
    warn("--param-rounding stochastic has no effect with --master-dtype " + textOf(o.masterDtype) +
         ": updates keep parameters in f32; --master-dtype none keeps them in the param dtype");
  bool copies = o.offload.any(),
       free = o.memoryLimit.any() || !o.compare.empty(); // these vary other flags
  if (!free && !o.gathersTrained() && !copies)
    for (const char *flag : {"prefetch", "max-gathers-in-flight"})
      if (typed(flag))
        warn(llvm::Twine("--") + flag + " has no effect with --shard " + shard +
             " and --offload none: nothing is gathered or copied");
  if (!free && typed("prefetch") && o.prefetch > 0 && o.gathersTrained() && !copies &&
      o.prefetch >= o.maxGathersInFlight)
    warn("--prefetch " + std::to_string(o.prefetch) + " is more than --max-gathers-in-flight " +
         std::to_string(o.maxGathersInFlight) +
         " allows: " + std::to_string(o.maxGathersInFlight - 1) + " ahead of the unit in use");
  if (o.order == ReductionOrder::Memory && !o.scattersGradients() && !comparesShard)
    warn("--order memory has no effect with --shard " + shard +
         ": whole gradients wait for the update");
  if (typed("sync-every-microbatch") && !o.syncEveryMicrobatch && !comparesShard) {
    if (o.accumulate == 1)
      warn("--sync-every-microbatch=false has no effect without --accumulate");
    else if (!o.scattersGradients())
      warn("--sync-every-microbatch=false has no effect with --shard " + shard +
           ": gradients are reduced once per step");
  }
  if (o.keepSingleRank && !llvm::is_contained(o.mesh.sizes, 1))
    warn("--keep-single-rank-collectives=true has no effect with --mesh " + textOf(o.mesh) +
         ": every axis has several ranks");
  return SHALE_EXIT_OK;
}
