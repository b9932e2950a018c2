//===- Declare.cpp - Checks and declarations before the translation -------===//
//
// Checks the file, finds the nodes that the loss depends on, and declares inputs and
// states.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/State.h"
#include "include/shale/Runtime.h"
#include "lib/Analysis/Timeline.h"
#include "lib/Frontend/ONNX/Importer.h"
#include "lib/Frontend/ONNX/Narrow.h"
#include "lib/Support/Remarks.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

LogicalResult Importer::checkOpsets() {
  const ModelProto &proto = model.proto();
  if (!proto.has_ir_version() || proto.ir_version() < 3)
    return error("no ir_version, or one before 3: export the model again"), failure();
  for (const OperatorSetIdProto &opset : proto.opset_import()) {
    StringRef domain = domainOf(opset.domain());
    if (opset.version() < 1 || opset.version() > INT32_MAX)
      return error("operator set '" + displayName(domain) + "' has version " +
                   Twine(opset.version())),
             failure();
    // If a domain is imported twice, the higher version holds (ONNX,
    // docs/IR.md).
    int64_t &version = root.opsets[domain];
    version = std::max(version, opset.version());
  }
  if (!root.opsets.count(""))
    return error("the file imports no operator set of the standard domain "
                 "(opset_import)"),
           failure();
  if (root.opsets[""] < 11)
    return error("operator set " + Twine(root.opsets[""]) +
                 " is older than 11: export with opset 18 or later"),
           failure();
  if (root.opsets[""] > 28)
    return error("operator set " + Twine(root.opsets[""]) +
                 " is newer than 28, the newest that Shale supports: export with "
                 "opset 23"),
           failure();
  return success();
}

LogicalResult Importer::checkModel() {
  if (mlir::failed(checkOpsets()) || mlir::failed(completeGraph()))
    return failure();
  const ModelProto &proto = model.proto();
  const GraphProto &graph = proto.graph();
  if (graph.sparse_initializer_size() > 0)
    return error("sparse initializers are not supported"), failure();
  for (const TensorProto &tensor : graph.initializer()) {
    if (tensor.name().empty())
      return error("an initializer has no name"), failure();
    if (!initializers.try_emplace(tensor.name(), &tensor).second)
      return error("initializer '" + displayName(tensor.name()) + "' is defined twice"), failure();
  }
  for (const FunctionProto &function : proto.functions())
    if (!functions
             .try_emplace(
                 (domainOf(function.domain()) + "::" + function.name() + "::" + function.overload())
                     .str(),
                 &function)
             .second)
      return error("function '" + displayName(function.name()) + "' is defined twice"), failure();
  return success();
}

/// Collects the nodes that the loss and the gradients depend on; fails if a name is defined twice.
LogicalResult Importer::findNeeded() {
  const GraphProto &graph = model.proto().graph();
  if (graph.node_size() > kMaxNodes)
    return error("more than " + Twine(kMaxNodes) + " nodes"), failure();
  llvm::StringMap<const NodeProto *> producer;
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output()) {
      if (name.empty())
        continue;
      current = &node;
      currentNode = "node '" + displayName(node.name()) + "' (" + displayName(node.op_type()) + ")";
      if (!producer.try_emplace(name, &node).second || initializers.count(name))
        return error("value '" + displayName(name) + "' is defined twice"), failure();
    }
  current = nullptr;
  SmallVector<StringRef> work;
  llvm::append_range(work, roots());
  while (!work.empty()) {
    auto it = producer.find(work.pop_back_val());
    if (it == producer.end() || !needed.insert(it->second).second)
      continue;
    forEachNameRead(*it->second, [&](StringRef name) { work.push_back(name); });
  }
  return success();
}

const FunctionProto *Importer::findFunction(const NodeProto &node) const {
  auto it = functions.find(
      (domainOf(node.domain()) + "::" + node.op_type() + "::" + node.overload()).str());
  return it == functions.end() ? nullptr : it->second;
}

void Importer::collectUnsupported(const NodeProto &node, const Scope &scope, int depth) {
  int64_t version = scope.opsetOf(node);
  if (const FunctionProto *function = findFunction(node)) {
    // Recursion is reported when the call is followed.
    if (depth < kMaxCallDepth && visitedFunctions
                                     .insert((Twine(function->domain()) + "::" + function->name() +
                                              "::" + function->overload())
                                                 .str())
                                     .second) {
      Scope inner = functionScope(*function, scope);
      for (const NodeProto &called : function->node())
        collectUnsupported(called, inner, depth + 1);
    }
    return;
  }
  if (getHandlers().find(domainOf(node.domain()), node.op_type(), version)) {
    // Only one branch of an If is imported: it is not known yet which one.
    if (node.op_type() != "If")
      for (const AttributeProto &attribute : node.attribute())
        for (const NodeProto &inner : attribute.g().node())
          collectUnsupported(inner, scope, depth);
    return;
  }
  std::string domain = node.domain().empty() ? "ai.onnx" : displayName(node.domain());
  std::string key = domain + " " + displayName(node.op_type()) +
                    (version ? ", opset " + std::to_string(version) : ", domain not imported");
  Unsupported &entry = unsupported[key];
  if (entry.count++ > 0)
    return;
  entry.node =
      displayName(node.name().empty() && node.output_size() ? node.output(0) : node.name());
  entry.place = sourcePlace(locationOf(node));
}

LogicalResult Importer::checkSupported() {
  for (const NodeProto &node : model.proto().graph().node())
    if (needed.contains(&node))
      collectUnsupported(node, root, 0);
  if (unsupported.empty())
    return success();
  std::string text;
  for (auto &[key, entry] : unsupported)
    text += "\n  " + key + ": " + std::to_string(entry.count) +
            (entry.count == 1 ? " node" : " nodes") + ", first '" + entry.node + "'" +
            (entry.place.empty() ? "" : " (" + entry.place + ")");
  return error(Twine(unsupported.size()) +
               (unsupported.size() == 1 ? " operator is" : " operators are") +
               " not supported:" + text),
         failure();
}

FailureOr<int64_t> Importer::addInput(StringRef name, RankedTensorType type,
                                      std::optional<int64_t> batchDim) {
  int64_t index = inputs.size();
  inputs.push_back({name.str(), type, batchDim});
  Location loc = NameLoc::get(StringAttr::get(context, displayName(name)), fileLocation());
  inputs.back().argument = body->insertArgument(unsigned(index), type, loc);
  Binding binding;
  binding.value = inputs.back().argument;
  root.values[name] = binding;
  return index;
}

Value Importer::randomArgument(nn::Role role) {
  for (const Input &input : inputs)
    if (input.role == role)
      return input.argument;
  std::string name = "random." + nn::stringifyRole(role).str();
  while (root.values.count(name))
    name += "_";
  if (mlir::failed(addInput(name, RankedTensorType::get({}, builder.getI64Type()), std::nullopt)))
    return {};
  inputs.back().role = role;
  return inputs.back().argument;
}

LogicalResult Importer::declareInputs() {
  const GraphProto &graph = model.proto().graph();
  llvm::StringSet<> read, dimsUsed;
  llvm::StringMap<int64_t> assumed;
  for (const NodeProto *node : needed)
    forEachNameRead(*node, [&](StringRef name) { read.insert(name); });
  for (StringRef name : roots())
    read.insert(name);
  std::string missing;
  for (const ValueInfoProto &input : graph.input()) {
    if (initializers.count(input.name()))
      continue;
    std::string shown = displayName(input.name());
    if (input.name().empty() || root.values.count(input.name()))
      return error("input '" + shown + "' is defined twice, or has no name"), failure();
    const TypeProto::Tensor &tensor = input.type().tensor_type();
    for (const TensorShapeProto::Dimension &dim : tensor.shape().dim())
      if (!dim.dim_param().empty())
        dimsUsed.insert(dim.dim_param());
    if (!read.contains(input.name())) {
      emitDecision(fileLocation(), "import",
                   Twine(model.path()) + ": input '" + shown +
                       "' is left out: the loss does not depend on it");
      continue;
    }
    if (!input.type().has_tensor_type() || !tensor.has_shape())
      return error("input '" + shown + "' is not a tensor of known rank"), failure();
    std::string why;
    Type element = elementType(context, tensor.elem_type(), why);
    if (element && narrowInteger(tensor.elem_type()))
      why = "programs do not read element type " + std::to_string(tensor.elem_type()) +
            ": declare it int64 and cast it";
    if (!why.empty())
      return error("input '" + shown + "': " + why), failure();
    SmallVector<int64_t> shape;
    std::optional<int64_t> batchDim;
    for (const TensorShapeProto::Dimension &dim : tensor.shape().dim()) {
      if (dim.has_dim_value() && dim.dim_value() > 0) {
        shape.push_back(dim.dim_value());
        continue;
      }
      if (dim.has_dim_value() && dim.dim_value() < 0)
        return error("input '" + shown + "' has a negative dimension"), failure();
      auto it = options.dims.find(dim.dim_param());
      if (dim.dim_param().empty())
        return error("input '" + shown +
                     "' has a dimension without size and name: export it with "
                     "a name (dynamic_shapes)"),
               failure();
      if (dim.dim_param() == "batch" && !batchDim)
        batchDim = shape.size();
      if (it == options.dims.end() && options.assumed) {
        int64_t rows = llvm::alignTo(4, uint64_t(options.dataRanks));
        auto [known, isNew] =
            assumed.try_emplace(dim.dim_param(), shape.empty() ? rows : options.assumedSize);
        shape.push_back(known->second);
        if (isNew)
          options.assumed->push_back("--dim " + displayName(dim.dim_param()) + "=" +
                                     std::to_string(known->second));
        continue;
      }
      if (it == options.dims.end()) {
        std::string flag = " --dim " + displayName(dim.dim_param()) + "=SIZE";
        if (!StringRef(missing).contains(flag))
          missing += flag;
        shape.push_back(1);
        continue;
      }
      shape.push_back(it->second);
    }
    auto batch = options.batchDims.find(input.name());
    if (batch != options.batchDims.end()) {
      if (batch->second < 0 || batch->second >= int64_t(shape.size()))
        return error("--batch-dim: input '" + shown + "' has " + Twine(shape.size()) +
                         " dimensions",
                     SHALE_EXIT_USAGE),
               failure();
      batchDim = batch->second;
    }
    auto type = RankedTensorType::get(shape, element);
    if (nn::tensorBytes(type) < 0)
      return error("the size of input '" + shown + "' overflows 64 bits"), failure();
    if (mlir::failed(addInput(input.name(), type, batchDim)))
      return failure();
    for (auto [dim, size] : llvm::zip(tensor.shape().dim(), shape))
      inputs.back().sizes += (inputs.back().sizes.empty() ? "" : ", ") +
                             (dim.dim_param().empty() ? "" : displayName(dim.dim_param()) + "=") +
                             std::to_string(size);
    inputs.back().isFixed = tensor.shape().dim_size() > 0 && tensor.shape().dim(0).has_dim_value();
    if (options.bindings.lookup(input.name()) == "ones") {
      // Values that depend on it are folded, so a mask that hides nothing costs nothing.
      inputs.back().folded = true;
      root.values[input.name()].value = nn::splat(builder, fileLocation(), type, 1);
    }
  }
  if (!missing.empty()) {
    std::string unknown; // --dim names that no input has
    for (auto &dim : options.dims)
      if (!dimsUsed.contains(dim.getKey()))
        unknown += (unknown.empty() ? ", not '" : ", '") + displayName(dim.getKey()) + "'";
    return error("sizes of dimensions are missing: pass" + missing + unknown, SHALE_EXIT_USAGE),
           failure();
  }
  for (auto &dim : options.dims)
    if (!dimsUsed.contains(dim.getKey())) {
      std::string known;
      for (auto &entry : dimsUsed)
        known += (known.empty() ? "" : ", ") + displayName(entry.getKey());
      if (known.empty())
        return error("--dim " + displayName(dim.getKey()) +
                         ": all sizes of the inputs are fixed in the file: "
                         "leave --dim out, or export the model with free sizes "
                         "(dynamic_shapes={INPUT: {0: \"batch\", 1: "
                         "\"sequence\"}})",
                     SHALE_EXIT_USAGE),
               failure();
      return error("--dim: no input has a dimension '" + displayName(dim.getKey()) +
                       "'; there are " + known,
                   SHALE_EXIT_USAGE),
             failure();
    }
  for (auto &batch : options.batchDims)
    if (!root.values.count(batch.getKey()))
      return error("--batch-dim: no input '" + displayName(batch.getKey()) + "'; there are " +
                       listInputs([](const Input &) { return true; }),
                   SHALE_EXIT_USAGE),
             failure();
  return success();
}

/// Returns elements as an initial value: one number if all are equal, zeros if there are none.
static Attribute initialValue(RankedTensorType type, ArrayRef<double> values) {
  bool uniform = llvm::all_of(values, [&](double value) { return value == values.front(); });
  if (uniform) {
    auto fill =
        FloatAttr::get(Float64Type::get(type.getContext()), values.empty() ? 0.0 : values.front());
    return nn::FillAttr::get(type.getContext(), fill);
  }
  const llvm::fltSemantics &semantics = cast<FloatType>(type.getElementType()).getFloatSemantics();
  SmallVector<APFloat> elements;
  for (double value : values) {
    bool inexact;
    elements.emplace_back(value);
    elements.back().convert(semantics, APFloat::rmNearestTiesToEven, &inexact);
  }
  return DenseElementsAttr::get(type, elements);
}

/// Returns a value that the file computes as an initial value.
static Attribute initialValue(DenseElementsAttr values) {
  if (!values.isSplat())
    return values;
  APFloat value = values.getSplatValue<APFloat>();
  bool inexact;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
  auto type = Float64Type::get(values.getContext());
  return nn::FillAttr::get(values.getContext(), FloatAttr::get(type, value));
}

LogicalResult Importer::declareStates() {
  model.requireData = options.missingData == ImportOptions::MissingData::Error;
  parameters = training ? findNamed(model, training->parameters, training->frozen)
                        : findParameters(model, options.parameters);
  for (const auto &constant : options.parameters.constants)
    if (!initializers.count(constant.getKey()))
      return error("--constant: no initializer is named '" + displayName(constant.getKey()) + "'",
                   SHALE_EXIT_USAGE),
             failure();
  if (!parameters.errors.empty()) {
    std::string text = parameters.errors.front();
    for (const std::string &more : llvm::drop_begin(parameters.errors))
      text += "\n  " + more;
    return error(text), failure();
  }
  for (const std::string &text : parameters.notes)
    note(text);
  if (!parameters.absent.empty()) {
    SmallVector<StringRef> names(parameters.absent.begin(), parameters.absent.end());
    (*module)->setAttr(nn::kAbsentAttr, builder.getStrArrayAttr(names));
  }
  OpBuilder states(context);
  states.setInsertionPointToEnd(module->getBody());
  llvm::StringSet<> names;
  stateValues.resize(parameters.list.size());
  for (auto [index, parameter] : llvm::enumerate(parameters.list)) {
    if (!parameter.used)
      continue;
    std::string shown = displayName(parameter.name);
    RankedTensorType type;
    Attribute init;
    if (parameter.initializer) {
      auto declared = model.type(context, *parameter.initializer);
      if (!declared)
        return error("parameter '" + shown + "': " + llvm::toString(declared.takeError())),
               failure();
      type = *declared;
      if (!parameter.isParameter && nn::tensorBytes(type) <= kConstantLimit && !parameter.isChanged)
        continue; // a constant where it is read
      auto place = model.fileRange(*parameter.initializer, type);
      if (!place)
        return error("initializer '" + displayName(parameter.initializer->name()) +
                     "' of parameter '" + shown + "': " + llvm::toString(place.takeError())),
               failure();
      if (parameter.transposed)
        type =
            RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
      if (!parameter.shape.empty()) // the same elements in another shape
        type = RankedTensorType::get(parameter.shape, type.getElementType());
      DenseElementsAttr given;
      if (training)
        given = training->initial.lookup(parameter.initializer->name());
      if (given) {
        init = initialValue(given);
      } else if (place->path.empty()) {
        // Stored as a list of numbers: supported only if all elements are one
        // number.
        auto data = model.read(context, *parameter.initializer, kConstantLimit);
        if (!data)
          return error("parameter '" + shown + "': " + llvm::toString(data.takeError())), failure();
        std::optional<double> fill;
        if (data->getNumElements() == 1 || data->isSplat())
          fill = (*data->getValues<APFloat>().begin()).convertToFloat();
        if (!fill)
          return error("initializer '" + shown +
                       "' is stored as a list of numbers, not as bytes: save "
                       "the model again with raw data"),
                 failure();
        init = nn::FillAttr::get(context, builder.getF64FloatAttr(*fill));
      } else {
        SmallString<256> path(place->path);
        (void)llvm::sys::fs::make_absolute(path);
        init = nn::FileAttr::get(context, path, place->offset, place->length, parameter.transposed,
                                 Type());
      }
    } else {
      std::string why;
      Type element = elementType(context, parameter.dataType, why);
      type = RankedTensorType::get(parameter.shape, element);
      init = initialValue(type, parameter.values);
    }
    if (!names.insert(parameter.name).second)
      return error("two parameters are named '" + shown + "'"), failure();
    auto role = parameter.isParameter ? nn::Role::Param : nn::Role::Buffer;
    ArrayAttr aliases;
    if (!parameter.aliases.empty()) {
      SmallVector<StringRef> list(parameter.aliases.begin(), parameter.aliases.end());
      aliases = builder.getStrArrayAttr(list);
    }
    nn::StateOp::create(states, fileLocation(), builder.getStringAttr(shown),
                        nn::RoleAttr::get(context, role), /*slot=*/StringAttr(),
                        TypeAttr::get(type), init, aliases, FlatSymbolRefAttr(), StringAttr(),
                        BoolAttr(), FloatAttr());
    stateOrder.push_back(index);
    stateValues[index] =
        body->addArgument(type, NameLoc::get(builder.getStringAttr(shown), fileLocation()));
  }
  for (const std::string &path : model.missing) {
    std::string text = (Twine(model.path()) + ": weights '" + displayName(path) +
                        "' do not exist (yet): a program will look for them when it starts")
                           .str();
    if (options.missingData == ImportOptions::MissingData::Remark)
      emitDecision(fileLocation(), "import", text);
    else
      emitWarning(fileLocation()) << text;
  }
  for (const Repair &repair : parameters.repairs) {
    Location location = repair.node ? locationOf(*repair.node) : fileLocation();
    if (repair.isNote)
      emitNote(location, repair.text);
    else
      emitDecision(location, "import", repair.text);
  }
  describeBuffers();
  return success();
}
