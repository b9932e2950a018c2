//===- Describe.cpp - Human-readable description of a model ---------------===//
#include "lib/Analysis/Describe.h"
#include "dialects/nn/Bindings.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Modules.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;

/// Returns "[steps, 4, 64] f32", with `first` in front of the sizes.
static std::string typeText(RankedTensorType type, StringRef first = "") {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[' << first << (first.empty() || type.getRank() == 0 ? "" : ", ");
  llvm::interleaveComma(type.getShape(), os);
  os << "] " << type.getElementType();
  return text;
}

/// Returns the number of rows of the table that an input looks up, or 0.
static int64_t vocabularyOf(BlockArgument argument) {
  int64_t rows = 0;
  argument.getOwner()->walk([&](nn::EmbeddingOp lookup) {
    Value indices = lookup.getIndices();
    for (Operation *op = indices.getDefiningOp();
         op && isa<nn::ReshapeOp, nn::CastOp, nn::SliceOp>(op); op = indices.getDefiningOp())
      indices = op->getOperand(0);
    int64_t size = cast<RankedTensorType>(lookup.getTable().getType()).getDimSize(0);
    if (indices == argument)
      rows = rows ? std::min(rows, size) : size;
  });
  return rows;
}

namespace {
/// An input of the model, as it is printed.
struct Described {
  StringRef name;
  nn::Binding binding;
  BlockArgument argument;
  RankedTensorType type;
  IntegerAttr batchDim; // null: none
  bool isLabel;
};
} // namespace

static std::vector<Described> inputsOf(ModuleOp module) {
  std::vector<Described> inputs;
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  for (unsigned i = 0; forward && i < forward.getNumArguments(); ++i) {
    auto role = forward.getArgAttrOfType<nn::RoleAttr>(i, nn::kRoleAttr);
    if (!role || (role.getValue() != nn::Role::Label && role.getValue() != nn::Role::Input))
      continue;
    inputs.push_back({forward.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue(),
                      nn::getBinding(forward, i), forward.getArgument(i),
                      cast<RankedTensorType>(forward.getArgument(i).getType()),
                      forward.getArgAttrOfType<IntegerAttr>(i, nn::kBatchDimAttr),
                      role.getValue() == nn::Role::Label});
  }
  return inputs;
}

/// Returns the meaning of an input's binding.
static std::string meaningOf(const Described &input) {
  if (input.binding == nn::Binding::Data)
    return "from the data file";
  std::string text = "bound to " + nn::textOf(input.binding).str();
  int64_t words = vocabularyOf(input.argument);
  if (input.binding == nn::Binding::Tokens && words)
    text += ": token ids of the data, below " + std::to_string(words);
  else if (input.binding == nn::Binding::NextTokens)
    text += ": the tokens one position later";
  else if (input.binding == nn::Binding::Ones)
    text += ": nothing is hidden, unless the data file has it";
  else if (input.binding == nn::Binding::Arange)
    text += ": positions 0, 1, 2, ..";
  return text;
}

void shale::describeTraining(ModuleOp module, StringRef program, raw_ostream &os) {
  std::string tensors;
  int64_t words = 0;
  bool tokens = true;
  for (const Described &input : inputsOf(module)) {
    tokens &= input.binding != nn::Binding::Data;
    if (input.binding == nn::Binding::Data || nn::readsTokens(input.binding))
      tensors +=
          (tensors.empty() ? "" : ", ") + input.name.str() + " " + typeText(input.type, "steps");
    if (input.binding != nn::Binding::Data)
      words = std::max(words, vocabularyOf(input.argument));
  }
  auto fixed = module->getAttrOfType<DictionaryAttr>(nn::kHypersAttr);
  bool fixesRate = fixed && fixed.contains("lr");
  bool path = program.contains('/'),
       bytes = words == 256; // with fewer, most files have bytes that are not tokens
  os << "  " << (path ? "" : "./") << program << " --data "
     << (tokens ? bytes ? "text.txt" : "tokens.bin" : "batches.safetensors") << " --steps 100"
     << (fixesRate ? "" : " --lr 3e-4") << " --out run1\n";
  if (!tokens)
    os << "  # batches.safetensors holds " << tensors << "\n";
  else if (bytes)
    os << "  # text.txt: any file, its bytes are the tokens\n";
  else
    os << "  # tokens.bin: your tokenizer's ids, uint16 or uint32 (--token-dtype)\n";
}

void shale::describeModel(ModuleOp module, raw_ostream &os) {
  if (auto path = module->getAttrOfType<StringAttr>(nn::kModelAttr))
    os << "model       " << path.getValue() << "\n";
  auto sizes = module->getAttrOfType<DictionaryAttr>(nn::kSizesAttr);
  for (const Described &input : inputsOf(module)) {
    os << (input.isLabel ? "label       " : "input       ") << input.name << ' ';
    if (auto named = sizes ? sizes.getAs<StringAttr>(input.name) : StringAttr())
      os << '[' << named.getValue() << "] " << input.type.getElementType();
    else
      os << typeText(input.type);
    if (input.batchDim)
      os << ", batch dimension " << input.batchDim.getInt();
    os << ", " << meaningOf(input) << "\n";
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
  os << "parameters  " << count << " of " << llvm::formatv("{0:N}", elements) << " elements";
  if (tied)
    os << ", " << tied << " tied";
  os << "\n";
  module.walk([&](nn::StateOp state) {
    os << "  " << llvm::left_justify(state.getSymName(), width) << "  "
       << typeText(state.getTensorType());
    if (state.getRole() == nn::Role::Buffer)
      os << ", buffer";
    if (auto names = state.getNames())
      for (Attribute name : *names)
        os << ", also " << cast<StringAttr>(name).getValue();
    if (auto fill = dyn_cast_or_null<nn::FillAttr>(state.getInitAttr()))
      os << ", all " << llvm::format("%g", fill.getValue().getValueAsDouble());
    os << "\n";
  });
  if (std::vector<std::string> blocks = findBlocks(module); blocks.empty())
    os << "blocks      none: no module repeats with an index\n";
  else
    os << "blocks      " << blocks.size() << ": " << llvm::join(blocks, ", ") << "\n";
  if (auto loss = module->getAttrOfType<StringAttr>(nn::kLossAttr))
    os << "loss        " << loss.getValue() << "\n";
  if (auto fixed = module->getAttrOfType<DictionaryAttr>(nn::kHypersAttr)) {
    os << "optimizer   of the file: "
       << module->getAttrOfType<StringAttr>(nn::kOptimizerAttr).getValue();
    for (NamedAttribute entry : fixed)
      os << ", " << entry.getName().getValue() << " "
         << llvm::format("%g", cast<FloatAttr>(entry.getValue()).getValueAsDouble());
    os << "\n";
  }
  int64_t given = 0;
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  for (unsigned i = 0; forward && i < forward.getNumResults(); ++i)
    given += forward.getResultAttr(i, nn::kGradientOfAttr) ? 1 : 0;
  if (given)
    os << "gradients   of " << given
       << " parameters, computed by the graph (--gradient none derives them instead)\n";
}
