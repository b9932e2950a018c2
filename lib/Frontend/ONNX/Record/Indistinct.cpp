//===- Indistinct.cpp - Merged operations that may differ -----------------===//
//
// Two operations of the same operands may differ in what the file lacks: the label smoothing of a
// cross-entropy, the mode of a batch normalization, the numbers of a dropout.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Returns what a node computes that the file does not tell from another one of its kind; null
/// if it does.
static const char *whatIsLost(const NodeProto &node, const FxNode &fx) {
  if (StringRef(fx.target).starts_with(words::kCrossEntropy))
    return "losses with the same label smoothing";
  if (node.op_type() == "Dropout" || node.op_type() == "Bernoulli" ||
      attentionDropout(fx).value_or(0) > 0)
    return "the same random numbers";
  return changesBuffer(node, 3) ? "batch normalizations of the same mode" : nullptr;
}

namespace {

/// The nodes that may differ from another one of their kind in what the file lacks.
class LostNodes {
public:
  explicit LostNodes(const TracedProgram &program) : program(program) {
    for (const NodeProto &node : program.graph().node()) {
      FxNode fx = readFxNode(node);
      if (const char *what = whatIsLost(node, fx))
        lost[&node] = what;
      named.push_back({&node, operationOf(fx.name), fx.name.empty() ? 0 : numberOf(fx.name)});
    }
  }

  /// Returns one that `value` depends on, and that may have been merged with another one before
  /// `reader`; null if there is none.
  const NodeProto *behind(const std::string &value, const Operation &reader) const {
    llvm::SmallSetVector<const NodeProto *, 16> reached;
    if (const NodeProto *node = lost.empty() ? nullptr : program.nodeOf(value))
      reached.insert(node);
    for (size_t at = 0; at < reached.size(); ++at) {
      if (lost.contains(reached[at]) && mayBeMissing(*reached[at], reader))
        return reached[at];
      for (const std::string &name : reached[at]->input())
        if (const NodeProto *node = program.nodeOf(name))
          reached.insert(node);
    }
    return nullptr;
  }
  const char *whatOf(const NodeProto &node) const { return lost.lookup(&node); }

private:
  struct Named {
    const NodeProto *node;
    std::string kind;
    int64_t number;
  };

  /// Operations have numbers in the order of the program: where each number up to the next
  /// operation of its kind is there, none was merged.
  bool mayBeMissing(const NodeProto &node, const Operation &reader) const {
    std::string kind = operationOf(readFxNode(node).name);
    if (kind.empty() || kind == "getitem")
      return true;
    std::set<int64_t> before;
    bool isAfter = false;
    for (const Named &other : named) {
      isAfter |= other.node == reader.nodes.back();
      if (other.kind != kind)
        continue;
      if (isAfter)
        return other.number != int64_t(before.size());
      before.insert(other.number);
    }
    return true;
  }

  const TracedProgram &program;
  llvm::DenseMap<const NodeProto *, const char *> lost;
  std::vector<Named> named;
};

} // namespace

/// Adds the names that an operation has for a value that it reads, of the operation `maker`: its
/// own name, and those of removed operations.
static void addNames(const TracedProgram &program, const Operation &operation, StringRef value,
                     const Operation &maker, std::set<std::string> &names) {
  auto [reads, named] = operation.readsOf(value, maker.fx.name);
  if (named > 0)
    names.insert(maker.fx.name);
  SmallVector<StringRef> missing = program.missingNames(operation), equal;
  llvm::erase_if(missing, [&](StringRef name) { return program.isFolded(name); });
  for (StringRef name : missing)
    if (operation.readsAlsoAs(name, value, maker.fx.name))
      equal.push_back(name);
  if (!equal.empty()) // two of one kind are two operations
    names.insert(maker.fx.name);
  else if (reads >= named + missing.size())
    equal = missing;
  for (StringRef name : equal)
    names.insert(name.str());
}

/// Returns an error for an operation that names the result of one that was merged with another.
static std::optional<std::string> refuseNamed(const TracedProgram &program,
                                              const Operation &operation) {
  auto draws = [](const NodeProto &node) {
    return node.op_type() == "Dropout" || node.op_type() == "Bernoulli";
  };
  auto trains = [](const NodeProto &node) { return changesBuffer(node, 3); };
  for (StringRef missing : program.missingNames(operation)) {
    std::string kind = operationOf(missing);
    auto reads = [&](llvm::function_ref<bool(const NodeProto &)> is) {
      return llvm::any_of(operation.nodes,
                          [&](const NodeProto *node) { return program.readsFrom(*node, is); });
    };
    if (kind == "cross_entropy_loss")
      return messages::mergedLoss(missing);
    // The missing draw itself, or what was computed from it.
    bool isDraw = words::is(kind, words::Trait::Draws);
    if (reads([&](const NodeProto &maker) {
          return isDraw ? draws(maker)
                        : operationOf(readFxNode(maker).name) == kind &&
                              program.readsFrom(maker, draws);
        }))
      return messages::mergedDraw(missing);
    if (kind == "getitem" && reads(trains))
      return messages::mergedNorm(missing);
  }
  return std::nullopt;
}

/// An error for the first operation that was merged with another one, from which it may differ in
/// what the file lacks.
Findings rules::indistinct(const Known &known) {
  const TracedProgram &program = known.program;
  for (const Operation &operation : program.operations())
    if (std::optional<std::string> error = refuseNamed(program, operation))
      return Findings::error(*error);
  // Equal operations on two merged values were merged, too.
  LostNodes lost(program);
  llvm::StringMap<std::set<std::string>> names; // of a value, as readers call it
  for (const Operation &operation : program.operations())
    for (const NodeProto *node : operation.nodes)
      for (const std::string &read : node->input()) {
        const Operation *maker = program.makerOf(read);
        if (!maker || maker == &operation)
          continue;
        std::set<std::string> &found = names[read];
        addNames(program, operation, read, *maker, found);
        const NodeProto *behind = found.size() > 1 ? lost.behind(read, operation) : nullptr;
        if (!behind)
          continue;
        auto name =
            llvm::find_if(found, [&](const std::string &name) { return name != maker->fx.name; });
        return Findings::error(messages::mergedBehind(*name, *behind, lost.whatOf(*behind)));
      }
  return {};
}
