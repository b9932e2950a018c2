//===- Hints.cpp - Which size of a flag an error may come from ------------===//
#include "lib/Frontend/ONNX/Hints.h"
#include "lib/Frontend/ONNX/Trace.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// A table has fewer than this many rows beyond its positions (OPT has two).
static constexpr int64_t kMoreRows = 8;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Returns the largest --dim that may be the size of `wants` positions; null if there is none.
static const llvm::StringMapEntry<int64_t> *dimOf(const ImportOptions &options, int64_t has,
                                                  int64_t wants) {
  const llvm::StringMapEntry<int64_t> *dim = nullptr;
  for (const auto &entry : options.dims)
    if (entry.getKey() != "batch" && entry.getValue() <= wants &&
        wants - entry.getValue() < std::min(kMoreRows, has) &&
        (!dim || entry.getValue() > dim->getValue()))
      dim = &entry;
  return dim;
}

std::string onnx::positionsHint(const ImportOptions &options, const States &states,
                                ArrayRef<Value> tables, int64_t has, int64_t wants) {
  const llvm::StringMapEntry<int64_t> *dim = dimOf(options, has, wants);
  if (!dim || has >= wants)
    return "";
  std::string name;
  for (Value table : tables) {
    if (!table)
      continue;
    for (BlockArgument argument : argumentsBehind(table))
      if (const Parameter *state = states.of(argument);
          state && llvm::is_contained(shapeOf(argument), has))
        name = " ('" + displayName(state->name) + "')";
  }
  int64_t spare = wants - dim->getValue();
  return "the model has " + std::to_string(has - spare) + " positions" + name + ": lower --dim " +
         displayName(dim->getKey()) + " to " + std::to_string(has - spare) + " at most";
}

std::string onnx::broadcastHint(const ImportOptions &options, const States &states,
                                ArrayRef<Value> values, int64_t one, int64_t other) {
  int64_t least = std::min(one, other), most = std::max(one, other);
  if (llvm::none_of(options.dims, [&](auto &entry) { return entry.getValue() == most; }))
    return "";
  SmallVector<Value> tables;
  for (Value value : values) // the smaller size is the model's
    if (llvm::is_contained(shapeOf(value), least))
      tables.push_back(value);
  std::string hint = positionsHint(options, states, tables, least, most);
  return hint.empty() ? "" : ". Perhaps " + hint;
}
