//===- Audit.cpp - The graph against its record ---------------------------===//
//
// The exporter records the operation that each node was made from, with its arguments. Where a node
// reads something else than its record names, and the exporter is not known to do that, a tool has
// changed the file.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Finder.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Returns the only element of a tensor of f32.
static std::optional<double> onlyNumber(Model &model, mlir::MLIRContext &context,
                                        const TensorProto &tensor) {
  if (tensor.data_type() != 1 || !isScalar(tensor))
    return std::nullopt;
  llvm::Expected<mlir::DenseElementsAttr> data = model.read(&context, tensor, sizeof(float));
  if (!data) {
    llvm::consumeError(data.takeError());
    return std::nullopt;
  }
  return data->getNumElements() == 1
             ? std::optional<double>((*data->getValues<llvm::APFloat>().begin()).convertToFloat())
             : std::nullopt;
}

/// Whether a value is a result of a Split. The exporter gives it no record, and calls its results
/// getitem.
bool Finder::isPartOfSplit(StringRef value) const {
  const NodeProto *node = nodeOf.lookup(value);
  return node && !makers.lookup(value) && node->op_type() == "Split";
}

/// Whether an argument of the record reads other than the operand with its number: a number that is
/// not the operand's, or another value of the exported program.
bool Finder::differs(StringRef argument, StringRef operand, mlir::MLIRContext &context) const {
  const Operation *maker = makers.lookup(operand);
  bool isOther = maker || isInput.contains(operand) || llvm::is_contained(targets, operand) ||
                 isPartOfSplit(operand);
  double written = 0;
  if (argument.consume_front("%")) {
    // A part of another operation of this argument, such as a transpose, is merged.
    if (maker && operand != maker->fx.name && operationOf(operand).empty() &&
        llvm::is_contained(maker->fx.args, argument))
      return false;
    if (auto parameter = byPlaceholder.find(argument); parameter != byPlaceholder.end())
      // A matrix may be there transposed, too.
      return initializers.count(targets[parameter->second]) &&
             operand != targets[parameter->second] &&
             (isOther ||
              (initializers.count(operand) && initializers.lookup(operand)->dims_size() == 1));
    if (initializers.count(argument) && initializers.count(operand) &&
        !llvm::is_contained(targets, argument))
      return operand != argument; // folded values
    return isOther &&
           (makers.count(argument) || operations.contains(("%" + argument).str()) ||
            isInput.contains(argument)) &&
           operand != argument && !(maker && maker->fx.name == argument);
  }
  if (argument.getAsDouble(written) || !std::isfinite(written))
    return false;
  std::optional<double> number;
  if (auto tensor = initializers.find(operand); tensor != initializers.end())
    number = onlyNumber(model, context, *tensor->second);
  const NodeProto *constant = nodeOf.lookup(operand);
  if (constant && constant->op_type() == "Constant" && constant->attribute_size() == 1 &&
      constant->attribute(0).name() == "value")
    number = onlyNumber(model, context, constant->attribute(0).t());
  return number && std::abs(*number - written) > 1e-6 * std::abs(written);
}

void Finder::audit() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  llvm::StringMap<int32_t> types;
  for (const auto *values : {&graph.value_info(), &graph.output()})
    for (const ValueInfoProto &value : *values)
      types[value.name()] = value.type().tensor_type().elem_type();
  auto isFloatValue = [&](StringRef name) {
    return llvm::is_contained({1, 10, 11, 16}, types.lookup(name));
  };
  llvm::StringSet<> tables; // constants of several numbers or truth values
  for (const TensorProto &tensor : graph.initializer())
    if (!isScalar(tensor) && (isFloat(tensor) || tensor.data_type() == 9))
      tables.insert(tensor.name());
  auto refuse = [&](const NodeProto &node, StringRef read, StringRef named) {
    out.errors.push_back("node '" + displayName(node.name()) + "' reads '" + displayName(read) +
                         "' where the record of its operation has '" + displayName(named) +
                         "': a tool has changed the file after its export. Compile the file that "
                         "PyTorch wrote");
  };
  for (const auto &entry : operations) {
    const Operation &operation = entry.second;
    SmallVector<const NodeProto *> nodes;
    for (const NodeProto *node : operation.nodes)
      if (node->op_type() != "Constant")
        nodes.push_back(node);
    // One node that reads the arguments in their order.
    if (nodes.size() == 1 && size_t(nodes[0]->input_size()) == operation.fx.positional.size() &&
        !llvm::is_contained({"addmm", "masked_fill", "rsub"}, operation.kind()))
      for (int i = 0; i < nodes[0]->input_size(); ++i) {
        const std::string &read = nodes[0]->input(i);
        if (differs(operation.fx.positional[i], read, context))
          return refuse(*nodes[0], read, operation.fx.positional[i]);
      }
    // A value, and a parameter, that it names and does not read, and one that it does not name.
    const std::vector<std::string> &args = operation.fx.args;
    auto reads = [&](StringRef name) {
      return llvm::any_of(
          nodes, [&](const NodeProto *node) { return llvm::is_contained(node->input(), name); });
    };
    auto unread = llvm::find_if(args, [&](const std::string &name) {
      return !StringRef(name).starts_with("sym_") && makers.count(name) && isFloatValue(name) &&
             !isRead(operation, name);
    });
    auto missing = llvm::find_if(args, [&](const std::string &name) {
      auto it = byPlaceholder.find(name);
      return it != byPlaceholder.end() && initializers.count(targets[it->second]) &&
             !reads(targets[it->second]);
    });
    // A mask of attention, which is a constant, stands for the name of what the exporter folded.
    llvm::StringSet<> stored;
    for (const NodeProto *node : nodes)
      for (const std::string &read : node->input())
        if (tables.contains(read) && !llvm::is_contained(args, read) &&
            !llvm::is_contained(targets, read))
          stored.insert(read);
    size_t folded = operation.kind().starts_with("scaled_dot") ? stored.size() : 0;
    bool mayBeRemoved = missingNames(operation).size() > folded;
    bool lacksVector = llvm::any_of(args, [&](const std::string &name) {
      auto it = byPlaceholder.find(name);
      const TensorProto *tensor =
          it == byPlaceholder.end() ? nullptr : initializers.lookup(targets[it->second]);
      return tensor && tensor->dims_size() == 1 && !reads(targets[it->second]);
    });
    for (const NodeProto *node : nodes)
      for (const std::string &read : node->input()) {
        const Operation *maker = makers.lookup(read);
        bool isNamed =
            llvm::is_contained(args, read) || (maker && llvm::is_contained(args, maker->fx.name));
        bool isOther = maker && maker != &operation && isFloatValue(read) &&
                       (!operationOf(read).empty() || read == maker->fx.name ||
                        llvm::is_contained(maker->nodes.back()->output(), read));
        bool isPart = isPartOfSplit(read) && llvm::none_of(args, [](const std::string &name) {
                        return operationOf(name) == "getitem";
                      });
        if (unread != args.end() && (isOther || isPart) && !isNamed)
          return refuse(*node, read, *unread);
        // A part of an operation is merged with another operation of the same operands only.
        if (isOther && !isNamed && read == maker->fx.name && (lacksVector || !mayBeRemoved) &&
            !llvm::all_of(maker->fx.args,
                          [&](const std::string &name) { return llvm::is_contained(args, name); }))
          return refuse(*node, read, args.empty() ? StringRef(operation.fx.name) : args.front());
        auto target = llvm::find(targets, read);
        if (missing != args.end() && target != targets.end() && initializers.count(read) &&
            llvm::none_of(args, [&](const std::string &name) {
              auto it = byPlaceholder.find(name);
              return it != byPlaceholder.end() && targets[it->second] == read;
            }))
          return refuse(*node, read, targets[byPlaceholder.find(*missing)->second]);
      }
  }
}
