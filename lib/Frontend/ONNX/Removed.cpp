//===- Removed.cpp - Sums that PyTorch's exporter removed -----------------===//
//
// Up to version 0.5 the optimizer of PyTorch's exporter takes a constant for 0 if it is at most
// 1e-8, and for 1 if it is within 1e-5 of it, and removes x + c, x - c, x * c and x / c. A small
// summand keeps roots, logarithms and quotients finite, so it must not get lost. What read the sum
// still names it: a Sqrt that reads `sum_1` is recorded as sqrt(%add). Its line of source is
// usually that of the sum. Source: onnxscript's rewriter/rules/common/_no_op.py and
// rewriter/_pattern_ir.py.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Finder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Regex.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Largest constant that the exporter takes for 0.
static constexpr double kTakenForZero = 1e-8;

/// Returns the numbers of a line of Python that the exporter takes for 0, except 0 itself, each
/// once.
static SmallVector<double> summandsIn(StringRef line) {
  SmallVector<double> found;
  llvm::Regex number(
      "(^|[^A-Za-z_0-9.])([0-9]+\\.?[0-9]*([eE][-+]?[0-9]+)?|\\.[0-9]+([eE][-+]?[0-9]+)?)");
  SmallVector<StringRef> groups;
  while (number.match(line, &groups)) {
    double value = 0;
    if (!groups[2].getAsDouble(value) && value > 0 && value <= kTakenForZero &&
        !llvm::is_contained(found, value))
      found.push_back(value);
    line = line.drop_front(groups[2].end() - line.begin());
  }
  return found;
}

/// Returns the name that an operation has for an operand of one of its nodes, where no node has a
/// value of that name; empty if it is not certain.
StringRef Finder::removedName(const Operation &operation, const NodeProto &node,
                              int operand) const {
  const std::string &read = node.input(operand);
  const Operation *maker = makers.lookup(read);
  auto isNamed = [&](StringRef name) { return llvm::is_contained(operation.fx.args, name); };
  if (maker == &operation || initializers.count(read) || !known.contains(read) || isNamed(read) ||
      (maker && isNamed(maker->fx.name)))
    return "";
  SmallVector<StringRef> names;
  for (StringRef name : operation.fx.args)
    if (!known.contains(name) && !llvm::is_contained(names, name))
      names.push_back(name);
  // A single node has the operation's operands in their order.
  const std::vector<std::string> &written = operation.fx.positional;
  if (operation.nodes.size() == 1 && size_t(node.input_size()) == written.size()) {
    StringRef name = written[operand];
    return name.consume_front("%") && llvm::is_contained(names, name) ? name : "";
  }
  return names.size() == 1 ? names.front() : "";
}

/// Whether the derivative of an operation, or of one that reads its result moved, is unbounded near
/// an operand of 0.
bool Finder::isUnboundedAtZero(const Operation &operation) const {
  static const llvm::StringSet<> unbounded = {"sqrt",       "rsqrt", "log", "log2", "log10",
                                              "reciprocal", "div",   "pow", "acos", "acosh"};
  llvm::SmallSetVector<const Operation *, 4> reached;
  reached.insert(&operation);
  for (size_t at = 0; at < reached.size(); ++at) {
    if (unbounded.contains(reached[at]->kind()))
      return true;
    if (!isMovement(reached[at]->kind()))
      continue;
    for (const auto &entry : operations)
      if (llvm::is_contained(entry.second.fx.args, reached[at]->fx.name))
        reached.insert(&entry.second);
  }
  return false;
}

void Finder::restoreRemovedSums() {
  for (const auto &entry : operations) {
    const Operation &operation = entry.second;
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; i < node->input_size(); ++i) {
        StringRef name = removedName(operation, *node, i);
        std::string kind = operationOf(name);
        if ((kind != "add" && kind != "sub") || out.readsOfMerged.count({node, i}))
          continue;
        const Operation *maker = makers.lookup(node->input(i));
        if (maker && operationOf(maker->fx.name) == kind)
          continue; // an equal sum, with which it was merged
        SmallVector<double> summands = summandsIn(readSourceText(*node));
        if (summands.size() == 1) {
          out.summands[{node, i}] = kind == "add" ? summands[0] : -summands[0];
          remark(node, "'" + name + "', which the export removed, is restored: " +
                           (kind == "add" ? "+ " : "- ") + shortest(summands[0]));
        } else if (isUnboundedAtZero(operation)) {
          out.errors.push_back(
              "node '" + displayName(node->name()) + "' reads '" + displayName(node->input(i)) +
              "' where the model reads '%" + name.str() + "' (" + readSourceText(*node).str() +
              "): the export removed a sum with a constant of at most 1e-8, and the constant is not in the file. "
              "Gradients near 0 depend on it. Export with torch.onnx.export(..., optimize=False)");
        }
      }
  }
}
