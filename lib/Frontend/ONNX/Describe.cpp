//===- Describe.cpp - What a model is, for people -------------------------===//
#include "dialects/nn/NN.h"
#include "lib/Frontend/ONNX/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <map>

using namespace mlir;
using namespace shale;

/// "16384" as "16,384".
static std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (int at = int(text.size()) - 3; at > 0; at -= 3)
    text.insert(at, ",");
  return text;
}

/// Every prefix of `scope` that ends in an index, outermost first:
/// "h.0.mlp.1.x" gives "h.0" and "h.0.mlp.1".
static SmallVector<std::string> indexedPrefixes(StringRef scope) {
  SmallVector<std::string> prefixes;
  size_t end = 0;
  while (end < scope.size()) {
    size_t dot = scope.find('.', end);
    if (dot == StringRef::npos)
      dot = scope.size();
    StringRef part = scope.slice(end, dot);
    if (!part.empty() && llvm::all_of(part, llvm::isDigit))
      prefixes.push_back(scope.take_front(dot).str());
    end = dot + 1;
  }
  return prefixes;
}

std::vector<std::string> onnx::findBlocks(ModuleOp module) {
  // Families of scopes that differ in their last index; the largest is the one
  // that holds most parameters, the outermost of equals.
  llvm::MapVector<std::string, std::vector<std::string>,
                  std::map<std::string, unsigned>>
      families;
  llvm::StringMap<int64_t> elements;
  module.walk([&](nn::StateOp state) {
    if (state.getRole() != nn::Role::Param)
      return;
    for (const std::string &prefix : indexedPrefixes(state.getSymName())) {
      std::string family = StringRef(prefix).rsplit('.').first.str();
      if (prefix.find('.') == std::string::npos)
        family = "";
      auto &blocks = families[family];
      if (!llvm::is_contained(blocks, prefix))
        blocks.push_back(prefix);
      elements[family] += state.getTensorType().getNumElements();
    }
  });
  std::vector<std::string> best;
  int64_t most = 0;
  for (auto &[family, blocks] : families)
    if (blocks.size() > 1 && elements[family] > most) {
      most = elements[family];
      best = blocks;
    }
  return best;
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
      if (!role)
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
