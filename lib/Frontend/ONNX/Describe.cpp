//===- Describe.cpp - What a model is, for people -------------------------===//
#include "dialects/nn/NN.h"
#include "lib/Analysis/Modules.h"
#include "lib/Frontend/ONNX/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace shale;

/// "16384" as "16,384".
static std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (int at = int(text.size()) - 3; at > 0; at -= 3)
    text.insert(at, ",");
  return text;
}

static void printType(RankedTensorType type, raw_ostream &os) {
  os << '[';
  llvm::interleaveComma(type.getShape(), os);
  os << "] " << type.getElementType();
}

void onnx::describeModel(ModuleOp module, raw_ostream &os) {
  if (auto path = module->getAttrOfType<StringAttr>("nn.model"))
    os << "model       " << path.getValue() << "\n";
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (forward)
    for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
      auto role = forward.getArgAttrOfType<nn::RoleAttr>(i, nn::kRoleAttr);
      if (!role || (role.getValue() != nn::Role::Label &&
                    role.getValue() != nn::Role::Input))
        continue;
      os << (role.getValue() == nn::Role::Label ? "label       "
                                                : "input       ")
         << forward.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue()
         << ' ';
      printType(cast<RankedTensorType>(forward.getArgument(i).getType()), os);
      if (auto batch =
              forward.getArgAttrOfType<IntegerAttr>(i, nn::kBatchDimAttr))
        os << ", batch dimension " << batch.getInt();
      auto binding = forward.getArgAttrOfType<StringAttr>(i, nn::kBindingAttr);
      os << (binding ? ", bound to " + binding.getValue().str()
                     : std::string(", from the data file"))
         << "\n";
    }
  int64_t count = 0, elements = 0, tied = 0;
  size_t width = 0;
  module.walk([&](nn::StateOp state) {
    width = std::max(width, state.getSymName().size());
    if (state.getRole() != nn::Role::Param)
      return;
    ++count;
    elements += state.getTensorType().getNumElements();
    tied += state.getNames() ? 1 : 0;
  });
  os << "parameters  " << count << " of " << grouped(elements) << " elements";
  if (tied)
    os << ", " << tied << " tied";
  os << "\n";
  module.walk([&](nn::StateOp state) {
    os << "  " << llvm::left_justify(state.getSymName(), width) << "  ";
    printType(state.getTensorType(), os);
    if (state.getRole() == nn::Role::Buffer)
      os << ", buffer";
    if (auto names = state.getNames())
      for (Attribute name : *names)
        os << ", also " << cast<StringAttr>(name).getValue();
    if (auto fill = dyn_cast_or_null<nn::FillAttr>(state.getInitAttr()))
      os << ", all " << llvm::format("%g", fill.getValue().getValueAsDouble());
    os << "\n";
  });
  std::vector<std::string> blocks = findBlocks(module);
  os << "blocks      ";
  if (blocks.empty())
    os << "none: no module repeats with an index";
  else
    os << blocks.size() << ": " << llvm::join(blocks, ", ");
  os << "\n";
  if (auto loss = module->getAttrOfType<StringAttr>("nn.loss"))
    os << "loss        " << loss.getValue() << "\n";
}
