//===- FollowFile.cpp - Flags that follow from the model's file -----------===//
#include "tools/driver/FollowFile.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Options/Flags.h"
#include "lib/Target/Target.h"
#include "shale/Runtime.h"
#include "tools/driver/Messages.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace shale;

bool shale::adoptFileType(CompileOptions &options, ModuleOp imported) {
  auto type = imported->getAttrOfType<TypeAttr>(nn::kFileTypeAttr);
  if (!type || options.typed.count("param-dtype"))
    return false;
  options.paramDtype = type.getValue().isBF16() ? FloatKind::BF16 : FloatKind::F16;
  return true;
}

void shale::followFileType(CompileOptions &options, ModuleOp imported, const Target &target) {
  bool adopted = adoptFileType(options, imported), rests = options.masterDtype == MasterKind::None;
  std::string type = textOf(options.paramDtype);
  if (adopted)
    llvm::errs() << "shalec: note: the model is in " << type << ": --param-dtype " << type
                 << ", parameters at rest in " << (rests ? type : textOf(options.masterDtype))
                 << "; --param-dtype f32 trains it in f32\n";
  if (options.paramDtype != FloatKind::F32 && !target.hasFast16BitFloats())
    llvm::errs()
        << "shalec: warning: --param-dtype " << type
        << ": this target computes matmuls in f32; 16-bit floats save memory and bytes on the wire, not time\n";
  else if (options.paramDtype == FloatKind::F32 && options.typed.count("master-dtype") && rests &&
           !options.compares("param-dtype"))
    llvm::errs() << "shalec: warning: --master-dtype none has no effect with --param-dtype f32\n";
}

int shale::followFileOptimizer(CompileOptions &options, ModuleOp imported) {
  const nn::Optimizer *own = nn::getOptimizer(imported);
  if (!own || !imported->hasAttr(nn::kHypersAttr))
    return SHALE_EXIT_OK;
  for (const Flag &flag : allFlags())
    if (flag.ofUpdates && options.typed.count(flag.name) &&
        (flag.name != llvm::StringRef("optimizer") || options.typedText(flag.name) != own->name))
      return usageError(llvm::Twine("--") + flag.name + " " + options.typedText(flag.name) +
                        " contradicts " + options.model + ", which has the optimizer " + own->name +
                        ", its constants and the parameters that it updates: leave the flag out");
  options.optimizer = own;
  return SHALE_EXIT_OK;
}
