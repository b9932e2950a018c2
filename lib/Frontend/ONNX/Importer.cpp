//===- Importer.cpp - From an ONNX file to the nn dialect -----------------===//
//
// Walks the nodes that the loss depends on, in the file's order. Shapes are
// static, so values that depend on shapes only are constants, which the
// interpreter computes during the import.
//
// The stages share an ImportContext. What a stage finds beside it is a member of the Importer.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Artifacts/Artifacts.h"
#include "lib/Frontend/ONNX/Building.h"
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "lib/Frontend/ONNX/Stages.h"

#include "lib/Support/DeadOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

//===----------------------------------------------------------------------===//
// The forward function and the module's attributes
//===----------------------------------------------------------------------===//

/// Returns a dictionary of the attributes that are not null.
static DictionaryAttr dictionaryOf(ArrayRef<std::pair<StringRef, Attribute>> entries) {
  NamedAttrList attrs;
  for (auto [name, value] : entries)
    if (value)
      attrs.append(name, value);
  return attrs.getDictionary(entries.front().second.getContext());
}

/// Moves the body into @forward, with the roles of its arguments and results.
static void buildForward(ImportContext &context, const Inputs &inputs, const States &states,
                         ArrayRef<Gradient> gradients, ArrayRef<NextValue> next) {
  OpBuilder end(context.mlirContext());
  end.setInsertionPointToEnd(context.module.getBody());
  auto type = end.getFunctionType(context.body.getArgumentTypes(),
                                  context.body.getTerminator()->getOperandTypes());
  auto function = func::FuncOp::create(end, context.fileLocation(), "forward", type);
  function.getBody().push_back(&context.body);
  auto text = [&](const Twine &text) { return end.getStringAttr(text); };
  auto roleOf = [&](nn::Role role) { return nn::RoleAttr::get(end.getContext(), role); };
  auto nameOf = [&](size_t index) { return displayName(states.parameters.list[index].name); };
  auto stateOf = [&](size_t index) {
    return FlatSymbolRefAttr::get(end.getContext(), nameOf(index));
  };
  SmallVector<DictionaryAttr> arguments, returned;
  for (const Input &input : inputs)
    arguments.push_back(dictionaryOf(
        {{nn::kRoleAttr,
          roleOf(input.role.value_or(input.isLabel ? nn::Role::Label : nn::Role::Input))},
         {nn::kNameAttr, text(displayName(input.name))},
         {nn::kBindingAttr,
          input.binding == nn::Binding::Data ? StringAttr() : text(nn::textOf(input.binding))},
         {nn::kBatchDimAttr,
          input.batchDim ? end.getI64IntegerAttr(*input.batchDim) : IntegerAttr()}}));
  for (auto [index, argument] : llvm::enumerate(states.values))
    if (argument)
      arguments.push_back(dictionaryOf({{nn::kStateAttr, stateOf(index)}}));
  for (StringRef name : {"loss", "loss_sum", "count"})
    returned.push_back(
        dictionaryOf({{nn::kRoleAttr, roleOf(nn::Role::Metric)}, {nn::kNameAttr, text(name)}}));
  for (const Gradient &gradient : gradients)
    returned.push_back(dictionaryOf({{nn::kGradientOfAttr, stateOf(gradient.parameter)},
                                     {nn::kNameAttr, text("grad." + nameOf(gradient.parameter))}}));
  for (const NextValue &each : next)
    returned.push_back(dictionaryOf({{nn::kStateAttr, stateOf(each.index)}}));
  function.setAllArgAttrs(arguments);
  function.setAllResultAttrs(returned);
}

/// Records in the module the path of the file, the nodes that compute the graph's outputs, the
/// sizes of inputs, and the classes of module scopes. Reports use them.
static void describeModule(ImportContext &context, const Inputs &inputs,
                           const llvm::StringMap<std::string> &classes) {
  Builder &builder = context.builder;
  ModuleOp module = context.module;
  SmallString<256> path(context.model.path());
  (void)llvm::sys::fs::make_absolute(path);
  module->setAttr(nn::kModelAttr, builder.getStringAttr(path));
  auto text = [&](StringRef name) { return builder.getStringAttr(displayName(name)); };
  llvm::StringSet<> outputs = namesOf(context.graph().output());
  NamedAttrList makers, sizes, scopes;
  for (const NodeProto &node : context.graph().node())
    for (const std::string &name : node.output())
      if (!name.empty() && outputs.contains(name))
        makers.set(text(name), text(node.name()));
  for (const Input &input : inputs)
    if (!input.sizes.empty())
      sizes.set(text(input.name), builder.getStringAttr(input.sizes));
  for (auto &entry : classes)
    scopes.set(entry.first(), text(entry.second));
  module->setAttr(nn::kOutputsAttr, makers.getDictionary(context.mlirContext()));
  if (!sizes.empty())
    module->setAttr(nn::kSizesAttr, sizes.getDictionary(context.mlirContext()));
  if (!scopes.empty())
    module->setAttr(nn::kClassesAttr, scopes.getDictionary(context.mlirContext()));
}

//===----------------------------------------------------------------------===//
// All stages
//===----------------------------------------------------------------------===//

namespace {

/// Imports the model of a context, stage by stage. Each stage adds to what is known.
class Importer {
public:
  /// `artifacts`: the other files of the model's folder, or null.
  Importer(ImportContext &context, const Artifacts *artifacts)
      : context(context), artifacts(artifacts), folder(context.builder, context.options.foldLimit) {
  }

  LogicalResult run() {
    LostDropout lostDropout;
    if (failed(take(readOpsets(context), context.scope.opsets)) ||
        failed(take(completeGraph(context, artifacts), training)) ||
        failed(readDefinitions(context)) || failed(chooseResults()) ||
        failed(findNeeded(context, roots())))
      return failure();
    context.model.requireData = context.options.missingData == ImportOptions::MissingData::Error;
    context.program = std::make_shared<TracedProgram>(context.model, context.options.parameters);
    if (failed(take(findLostDropout(context), lostDropout)) || failed(checkSupported(context)) ||
        failed(declareInputs(context, namesRead(), inputs)) ||
        failed(take(declareStates(context, training, nextBuffers), states)) ||
        failed(take(matchGradients(context, gradientOutputs, choice, states), gradients)))
      return failure();
    const InitialValues initial = training ? training->initial : InitialValues();
    auto namesModule = [](const NodeProto &node) { return !readScope(node).value_or("").empty(); };
    bool scopesAreLost = !gradients.empty() && llvm::none_of(context.graph().node(), namesModule);
    Building building(context, inputs, folder, states, initial, lostDropout, scopesAreLost);
    for (const NodeProto &node : context.graph().node())
      if (context.needed.contains(&node) && failed(building.importNode(node, context.scope, 0)))
        return failure();
    if (gradients.empty() && failed(checkStops(context, states, roots())))
      return failure();
    return finish(building);
  }

private:
  /// Reads the training step that the file defines, and takes its loss; if the file defines none,
  /// chooses the loss and the gradients.
  LogicalResult chooseResults() {
    if (!training && context.model.proto().training_info_size() > 0) {
      InitialValues initial;
      training.emplace();
      if (failed(take(computeInitialValues(context, inputs, folder), initial)) ||
          failed(take(readTrainingInfo(context, std::move(initial)), *training)))
        return failure();
    }
    if (training) {
      choice.terms.push_back({training->loss, 1});
      choice.isOfStep = true;
      return checkTrainingFlags(context, *training);
    }
    return failure(failed(take(findGradientOutputs(context), gradientOutputs)) ||
                   failed(take(chooseLoss(context, gradientOutputs), choice)) ||
                   failed(take(readNextBuffers(context), nextBuffers)));
  }

  /// Returns the names that the loss and the gradients are computed from.
  SmallVector<StringRef> roots() const {
    SmallVector<StringRef> names;
    for (const LossTerm &term : choice.terms)
      names.push_back(term.output);
    for (StringRef name : {StringRef(choice.logits), StringRef(choice.labels)})
      if (!name.empty())
        names.push_back(name);
    for (const GradientOutput &gradient : gradientOutputs.list)
      names.push_back(gradient.output);
    for (const NextBuffer &buffer : nextBuffers)
      names.push_back(buffer.output);
    return names;
  }

  /// Returns the names that the imported part of the graph reads.
  llvm::StringSet<> namesRead() const {
    llvm::StringSet<> read;
    for (const NodeProto *node : context.needed)
      forEachNameRead(*node, [&](StringRef name) { read.insert(name); });
    for (StringRef name : roots())
      read.insert(name);
    return read;
  }

  /// Completes the body, once nodes are imported: makes the loss, binds the inputs and builds the
  /// forward function.
  LogicalResult finish(Building &building) {
    Loss loss;
    SmallVector<Value> values;
    std::string note;
    std::vector<NextValue> next;
    if (failed(take(makeLoss(building, choice, inputs), loss)) ||
        failed(take(readGradients(context, states, gradients), values)) ||
        failed(take(bindInputs(context, states, loss.labeled, inputs), note)) ||
        failed(chooseBatch(context, inputs)))
      return failure();
    // A list of parameters, a training step or gradients say what is trained.
    if (!training && gradients.empty()) {
      if (context.program->operations().empty())
        context.note(
            "the file has no record of the traced program: whether PyTorch stops gradients (detach, no_grad) or divides them "
            "among equal elements otherwise than the graph shows is not checked. Export with torch.onnx.export(..., "
            "dynamo=True), or with tools/export/export.py, which also compares the gradients with PyTorch's");
      if (!states.parameters.hasSignature)
        freezeUnreached(context, states, loss.value);
    }
    if (failed(take(nextValues(context, states, nextBuffers), next)))
      return failure();
    SmallVector<Value> returned{loss.value, loss.parts.sum, loss.parts.count};
    llvm::append_range(returned, values);
    for (const NextValue &each : next)
      returned.push_back(each.value);
    func::ReturnOp::create(context.builder, context.fileLocation(), returned);
    eraseDeadOps(context.body);
    if (failed(checkChangedBuffers(context, states, roots())))
      return failure();
    buildForward(context, inputs, states, gradients, next);
    describeModule(context, inputs, building.classes);
    if (training)
      describeOptimizer(context, training->optimizer);
    if (!note.empty())
      context.module->setAttr(nn::kLossAttr, context.builder.getStringAttr(note));
    return success();
  }

  ImportContext &context;
  const Artifacts *artifacts;
  Inputs inputs;
  ConstantFolder folder;
  std::optional<FileTraining> training; // if the file defines the training step
  GradientOutputs gradientOutputs;
  std::vector<NextBuffer> nextBuffers;
  LossChoice choice;
  States states;
  std::vector<Gradient> gradients;
};

} // namespace

OwningOpRef<ModuleOp> onnx::importOnnx(StringRef path, const ImportOptions &options,
                                       MLIRContext *context, int *exitCode) {
  context->loadDialect<nn::NNDialect, func::FuncDialect>();
  context->loadAllAvailableDialects(); // plug-ins' handlers create ops of plug-ins' dialects
  auto fail = [&](int code) -> OwningOpRef<ModuleOp> {
    if (exitCode)
      *exitCode = code;
    return {};
  };
  ToolError failure;
  Artifacts artifacts;
  bool isFolder = llvm::sys::fs::is_directory(path);
  std::unique_ptr<Model> model =
      isFolder ? openArtifacts(path, artifacts, failure) : Model::open(path, failure);
  if (!model) {
    emitError(FileLineColLoc::get(context, path, 0, 0)) << failure.message;
    return fail(failure.exitCode);
  }
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(FileLineColLoc::get(context, model->path(), 0, 0));
  auto body = std::make_unique<Block>();
  ImportOptions completed = options;
  for (const std::vector<std::string> &names :
       readRecordedFrozen(model->proto().graph(), options.parameters.keepPrefix))
    completed.parameters.recordedFrozen.insert_range(names);
  ImportContext shared(*model, completed, *module, *body);
  if (failed(Importer(shared, isFolder ? &artifacts : nullptr).run())) {
    body->dropAllDefinedValueUses();
    return fail(shared.getExitCode());
  }
  (void)body.release(); // owned by the function now
  widen16BitFloats(*module);
  if (failed(mlir::verify(module->getOperation())))
    return fail(SHALE_EXIT_INTERNAL);
  return module;
}
