//===- Missing.cpp - Recorded names without a node ------------------------===//
//
// The record of an operation names what it reads. Where the graph has no value of a name, the
// exporter folded that operation into a constant, merged it with an equal one, or removed it.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Whether `name` stands among numbers in a list of the record, as in `[%mul_5, 12, 8]`: a size.
static bool isSize(StringRef name, const TracedOperation &operation) {
  return llvm::any_of(operation.fx.arguments, [&](const auto &argument) {
    const std::vector<Argument> &items = argument.second.items;
    return llvm::any_of(items, [](const Argument &item) { return item.isNumber(); }) &&
           llvm::any_of(items,
                        [&](const Argument &item) { return item.isValue() && item.text == name; });
  });
}

/// Whether `name`, which `reader` reads, is a slice of a whole dimension of what `kept` computes:
/// x[:, :, ::2] is slice_3(slice_2(slice_1(x))), one dimension after the other, and the exporter
/// removes the first two. A slice of the same expression that was merged with `kept` would have a
/// lower dimension than the reader.
static bool isWholeSlice(StringRef name, const FxNode &reader, const FxNode &kept) {
  auto dimOf = [](const FxNode &slice) {
    return operationOf(slice.name) == "slice" ? slice.number(1).value_or(-1) : -1;
  };
  double own = dimOf(reader);
  return operationOf(name) == "slice" && own > 0 && numberOf(name) + 1 == numberOf(reader.name) &&
         dimOf(kept) >= own;
}

/// Returns the name under which an operation reads an operand of one of its nodes, of `names`,
/// those that the graph has not: by the operation's form, or the one of the kind of the operation
/// that computes the operand, or the only one. Empty if it reads the operand under its own name, or
/// if it is not certain.
StringRef TracedProgram::nameOf(const TracedOperation &operation, const NodeProto &node,
                                int operand, llvm::ArrayRef<StringRef> names) const {
  const std::string &value = node.input(operand);
  const TracedOperation *maker = makerOf(value);
  if (maker == &operation)
    return "";
  if (const FormFitter::Meaning *meaning = meaningOf(node, operand)) {
    const auto *name = llvm::find(names, StringRef(meaning->value));
    return name == names.end() || (isFolded(*name) && !isDetach(*name)) ? "" : *name;
  }
  if (initializer(value) || !has(value))
    return "";
  size_t reads = 0, named = 0;
  for (const NodeProto *one : operation.nodes) // several nodes may read one operand
    reads = std::max<size_t>(reads, llvm::count(one->input(), value));
  for (const std::string &one : operation.fx.args)
    named += one == value || (maker && one == maker->fx.name);
  SmallVector<StringRef> open(names);
  llvm::erase_if(open, [&](StringRef name) { return isFolded(name); });
  std::string kind = maker ? operationOf(maker->fx.name) : "";
  for (StringRef name : open)
    if (!kind.empty() && operationOf(name) == kind && reads > named && !isSize(name, operation))
      return name;
  return named == 0 && open.size() == 1 ? open.front() : "";
}

/// Whether the exported program has, or may have, more operations that read a result than the
/// graph.
static bool hasLostReader(const TracedOperation &operation, const TracedRecord &record) {
  StringRef text = metadata(operation.nodes.back()->metadata_props(), words::kFxNode);
  int64_t users = 0;
  StringRef rest = text.split("[num_users=").second;
  return rest.consumeInteger(10, users) ||
         users > llvm::count_if(record.operations(), [&](const TracedOperation &one) {
           return llvm::is_contained(one.fx.args, operation.fx.name);
         });
}

void TracedProgram::findMissing() {
  for (const TracedOperation &operation : operations()) {
    SmallVector<StringRef> names = missingNames(operation);
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; !names.empty() && i < node->input_size(); ++i) {
        StringRef name = nameOf(operation, *node, i, names);
        if (name.empty())
          continue;
        using Kind = MissingRead::Kind;
        const TracedOperation *maker = makerOf(node->input(i));
        bool isEqual = maker && !operationOf(name).empty() &&
                       operationOf(maker->fx.name) == operationOf(name) &&
                       !isWholeSlice(name, operation.fx, maker->fx);
        Kind kind = !has(node->input(i)) || initializer(node->input(i)) ? Kind::Folded
                    : isEqual                                           ? Kind::Merged
                                                                        : Kind::Removed;
        bool mayBeRemoved =
            words::is(operationOf(name), words::Trait::IsRemoved) &&
            (kind == Kind::Removed || (kind == Kind::Merged && hasLostReader(*maker, *this)));
        missingAt[{node, i}] = missing.size();
        missing.push_back({&operation, {node, i}, name, maker, kind, mayBeRemoved});
      }
  }
}

const MissingRead *TracedProgram::missingRead(const NodeProto &node, int operand) const {
  auto found = missingAt.find({&node, operand});
  return found == missingAt.end() ? nullptr : &missing[found->second];
}
