//===- Messages.cpp - What the import says about parameters ---------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::StringRef;

static constexpr llvm::StringLiteral kRemedy =
    "Export with shale.export, or with torch.onnx.export(..., optimize=False)";

static std::string nodeOf(const NodeProto &node) {
  return "node '" + displayName(node.name()) + "'";
}

static std::string listOfSizes(ArrayRef<int64_t> sizes) {
  return "[" +
         llvm::join(llvm::map_range(sizes, [](int64_t size) { return std::to_string(size); }),
                    ", ") +
         "]";
}

/// Returns "parameter 'w' is" or "parameters 'v', 'w' are".
static std::string are(ArrayRef<std::string> names) {
  return (names.size() == 1 ? "parameter " : "parameters ") + listOf(names) +
         (names.size() == 1 ? " is" : " are");
}

// ---- a file that is not what was traced

std::string messages::contradiction(const Place &place, StringRef one, StringRef other) {
  return nodeOf(*place.first) + " reads '" + displayName(one) + "' or '" + displayName(other) +
         "' as operand " + std::to_string(place.second) +
         ": the file's record has reasons for both. " + kRemedy.str();
}

std::string messages::noSuchForm(StringRef target) {
  return "--assume-form " + displayName(target) +
         ": the file has no such operation; names are like aten.mul.Tensor";
}

static std::string sentenceOf(const Difference &difference, const Operation &operation) {
  std::string target = displayName(operation.fx.target);
  if (difference.operand < 0 && difference.attribute.empty())
    return "the nodes of '" + displayName(operation.fx.name) +
           "' read each other otherwise than those of every " + target;
  std::string place = difference.attribute.empty()
                          ? "operand " + std::to_string(difference.operand)
                          : "attribute '" + displayName(difference.attribute) + "'";
  return nodeOf(*difference.node) + " has " + displayName(difference.found) + " as " + place +
         ", and the record of its operation, " + target + ", has " +
         displayName(difference.expected);
}

std::string messages::mismatch(const Mismatch &mismatch) {
  const Operation &operation = *mismatch.operation;
  if (mismatch.isMergedNorm)
    return nodeOf(*operation.nodes.back()) + " has the record of a batch normalization, '" +
           displayName(operation.fx.name) +
           "': the export computed its weights from those of both layers, as for inference, so the "
           "two cannot be trained. " +
           kRemedy.str();
  return sentenceOf(mismatch.difference, operation) + ". " + kRemedy.str() + "; --assume-form " +
         displayName(operation.fx.target) + " takes the graph as it is";
}

// ---- what the exporter merged

std::string messages::mergedWithEqual(const NodeProto &node, StringRef name, StringRef module,
                                      StringRef other) {
  return nodeOf(node) + " reads '%" + displayName(name) +
         "', which the export merged with a node of module '" + displayName(module) +
         "': module '" + displayName(other) +
         "' has parameters of equal values, and the file does not have which of the two computes "
         "it. " +
         kRemedy.str();
}

std::string messages::mergedBehind(StringRef name, const NodeProto &behind, StringRef what) {
  return "the export merged '" + displayName(name) + "' with another operation of " +
         nodeOf(behind) + ", and the file does not show whether both read " + what.str() + ". " +
         kRemedy.str();
}

// ---- where gradients stop

std::string messages::detachedSomewhere(const NodeProto &node, StringRef name) {
  return nodeOf(node) + " reads a value that the model detaches ('" + displayName(name) +
         "'), and the file does not show which of its operands that is: training would send a "
         "gradient through it. " +
         kRemedy.str();
}

std::string messages::detachedInside(const NodeProto &node, const Operation &maker) {
  return nodeOf(node) + " reads a part of '" + displayName(maker.fx.name) +
         "', with which the export merged it, and the model detaches an operand there. " +
         kRemedy.str();
}

// ---- what the exporter removed or folded

std::string messages::readerOf(const MissingRead &read) {
  return nodeOf(*read.read.first) + " reads '" + displayName(read.value()) + "'";
}

std::string messages::lostSum(const MissingRead &read, size_t count) {
  return readerOf(read) + " where the model reads '%" + displayName(read.name) + "'" +
         (count > 1 ? ", and " + std::to_string(count - 1) + " more" : "") +
         ": the export removed a sum with a constant of at most 1e-8, and the constant is not in "
         "the file. Gradients near 0 depend on it. " +
         kRemedy.str();
}

std::string messages::mayHaveReadParameter(StringRef reader, StringRef name, StringRef parameter) {
  return reader.str() + " where the model has '%" + displayName(name) +
         "': the export removed an operation that changed nothing, and the file does not show "
         "whether it read parameter '" +
         displayName(parameter) +
         "', from whose values 0 or 1 can come; training would leave that use out. " +
         kRemedy.str();
}

std::string messages::lostProjection(StringRef parameter) {
  return "parameter '" + displayName(parameter) +
         "' is the projection of an LSTM with proj_size, and PyTorch's exporter leaves it out: the "
         "file computes another model. Write the steps of this LSTM in single operations";
}

std::string messages::lostParameters(ArrayRef<std::string> lost, ArrayRef<std::string> left,
                                     const NodeProto *reader) {
  std::string what;
  if (!left.empty())
    what = " (" + listOf(left) + (reader ? ", read by " + nodeOf(*reader) : "") + ")";
  return are(lost) + " listed but not in the graph: the export folded or left out what reads " +
         (lost.size() == 1 ? "it" : "them") + what + ". " + kRemedy.str() +
         "; --freeze is for what is not to be trained" +
         (reader ? ", --constant NAME for a constant that depends on no parameter" : "");
}

std::string messages::foldedFrom(const FoldedValue &value, StringRef parameter) {
  std::string constant = displayName(value.first().initializer->name());
  return nodeOf(*value.first().node) + " reads the constant '" + constant +
         "', which the export computed from parameter '" + displayName(parameter) + "'" +
         (value.from.empty() ? " or one of equal value" : "") +
         ": the parameter would get no gradient from this use. " + kRemedy.str() +
         ", or pass --constant " + constant + " to leave this gradient out";
}

std::string messages::maybeFoldedFrom(const FoldedValue &value, StringRef parameter,
                                      bool isTarget) {
  std::string constant = displayName(value.first().initializer->name());
  return nodeOf(*value.first().node) + " reads the constant '" + constant +
         "', which the export may have computed from parameter '" + displayName(parameter) +
         "' of the same module (equal numbers of elements). The parameter would get no gradient "
         "from this use. " +
         kRemedy.str() +
         (isTarget ? "" : ", or pass --constant " + constant + " if it depends on no parameter");
}

std::string messages::chosen(const NodeProto &node, StringRef constant, StringRef parameter) {
  return nodeOf(node) + " reads '" + displayName(constant) +
         "', a condition or an index that the export computed from parameter '" +
         displayName(parameter) + "': training would keep its first value. " + kRemedy.str() +
         ", or pass --constant " + displayName(constant) + " to keep it";
}

static constexpr llvm::StringLiteral kWhere = "Write the choice with torch.where()";

std::string messages::chosenBranch(const NodeProto &node, StringRef parameter) {
  return nodeOf(node) + " is of a branch of torch.cond() that the export chose by parameter '" +
         displayName(parameter) + "': training would keep the first choice. " + kWhere.str();
}

std::string messages::unchangedBranch(const NodeProto &node) {
  return nodeOf(node) +
         " reads a result of torch.cond() of which the export took one branch, and the file does "
         "not show whether its condition depends on a parameter: training would keep the first "
         "choice. " +
         kWhere.str();
}

std::string messages::mayBeChosen(const NodeProto &node, StringRef name, StringRef constant,
                                  StringRef parameter) {
  return nodeOf(node) + " reads '" + displayName(constant) + "' where the model has '%" +
         displayName(name) +
         "', a condition or an index: the export merged the two, and the file does not show whether "
         "it was computed from parameter '" +
         displayName(parameter) + "' of the same module; training would keep its first value. " +
         kRemedy.str() + ", or pass --constant " + displayName(constant) +
         " if it depends on no parameter";
}

// ---- notes

std::string messages::unused(ArrayRef<std::string> names) {
  return are(names) + " not used by the loss: not trained and not written";
}

Repair messages::openShape(const Use &use, StringRef parameter) {
  llvm::SmallVector<int64_t> shape(use.initializer->dims().begin(), use.initializer->dims().end());
  return {use.node,
          "parameter '" + parameter.str() +
              "', of which the export may have added dimensions, is trained and written as " +
              listOfSizes(shape) + ". Where PyTorch has another shape, export with optimize=False",
          /*isNote=*/true};
}

// ---- remarks

Repair messages::restoredFrom(const Use &use, StringRef parameter, bool transposed,
                              StringRef otherwise) {
  return {use.node, "parameter '" + parameter.str() + "' is restored from the " +
                        (transposed ? "transposed " : otherwise.str()) + "initializer '" +
                        displayName(use.initializer->name()) + "'"};
}

Repair messages::lostBias(const NodeProto &node, StringRef bias) {
  return {&node, "bias '" + bias.str() + "' of zeros, which the export dropped, is restored"};
}

Repair messages::mergedForModules(const NodeProto &node, StringRef parameter) {
  return {&node, "the node, which the export merged for several modules, is computed by '" +
                     parameter.str() + "' again"};
}

Repair messages::computedAgain(const NodeProto &kept, StringRef name, StringRef module) {
  return {&kept, "'" + displayName(name) + "' of module '" + displayName(module) +
                     "', which the export merged with this node, is computed again from its own "
                     "parameters"};
}

Repair messages::tied(StringRef second, StringRef kept) {
  return {nullptr, ("parameter '" + second + "' is tied: a second name of '" + kept + "'").str()};
}

Repair messages::foldedAgain(const FoldedValue &value, const Expression &expression,
                             StringRef parameter) {
  return {value.first().node, "'" + displayName(value.first().name) +
                                  "', which the export folded, is " + expression.text(parameter) +
                                  " again"};
}

Repair messages::foldedPart(const FoldedValue &value, StringRef parameter,
                            ArrayRef<int64_t> shape) {
  return {value.first().node,
          "parameter '" + parameter.str() +
              "', which the export folded, is restored from initializer '" +
              displayName(value.first().initializer->name()) +
              "': the part that the graph reads is trained and written, " + listOfSizes(shape) +
              ". Where that is not the whole, export with optimize=False or with a free size",
          /*isNote=*/true};
}
