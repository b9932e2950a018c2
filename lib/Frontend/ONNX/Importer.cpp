//===- Importer.cpp - From an ONNX file to the nn dialect -----------------===//
//
// Walks the nodes that the loss depends on, in the file's order. Shapes are
// static, so values that depend on shapes only are constants, which the
// interpreter computes during the import.
//
// Each stage takes the results of those before it, and returns its own.
//
//===----------------------------------------------------------------------===//
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Artifacts/Artifacts.h"
#include "lib/Frontend/ONNX/Checks.h"
#include "lib/Frontend/ONNX/Losses.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Stages.h"
#include "lib/Frontend/ONNX/Translator.h"
#include "lib/Support/DeadOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// The part of a graph that is imported: its loss and gradients, and the nodes that compute them.
struct Plan {
  Definitions definitions;
  std::optional<FileTraining> training; // if the file defines the training step
  GradientOutputs gradientOutputs;
  std::vector<NextBuffer> nextBuffers;
  LossChoice loss;
  NodeSet needed;

  /// Returns the names that the loss and the gradients are computed from.
  SmallVector<StringRef> roots() const {
    SmallVector<StringRef> names = rootsOf(loss, gradientOutputs);
    for (const NextBuffer &buffer : nextBuffers)
      names.push_back(buffer.output);
    return names;
  }
  /// Returns the values that replace those of initializers.
  InitialValues initial() const { return training ? training->initial : InitialValues(); }
};

/// The names of the graph, its inputs and the known constants. Translation adds to them.
struct Workplace {
  explicit Workplace(ImportContext &context) : folder(context.builder, context.options.foldLimit) {}

  Scope graph;
  Inputs inputs;
  ConstantFolder folder;
};

} // namespace

/// Reads the training step that the file defines, if it defines one.
static LogicalResult readTraining(ImportContext &context, Workplace &at, Plan &plan) {
  if (!plan.training && context.model.proto().training_info_size() > 0) {
    InitialValues initial;
    plan.training.emplace();
    if (failed(take(computeInitialValues(context, plan.definitions, at.graph, at.inputs, at.folder),
                    initial)) ||
        failed(take(readTrainingInfo(context, plan.definitions.initializers, std::move(initial)),
                    *plan.training)))
      return failure();
  }
  return plan.training ? checkTrainingFlags(context, *plan.training) : success();
}

/// Takes the loss of the file's training step; if the file defines none, chooses one.
static LogicalResult chooseResults(ImportContext &context, Plan &plan) {
  if (plan.training) {
    plan.loss.terms.push_back({plan.training->loss, 1});
    plan.loss.isOfStep = true;
    return success();
  }
  return failure(failed(take(findGradientOutputs(context), plan.gradientOutputs)) ||
                 failed(take(chooseLoss(context, plan.gradientOutputs), plan.loss)) ||
                 failed(take(readNextBuffers(context), plan.nextBuffers)));
}

static LogicalResult makePlan(ImportContext &context, const Artifacts *artifacts, Workplace &at,
                              Plan &plan) {
  return failure(failed(take(readOpsets(context), at.graph.opsets)) ||
                 failed(take(completeGraph(context, artifacts), plan.training)) ||
                 failed(take(readDefinitions(context), plan.definitions)) ||
                 failed(readTraining(context, at, plan)) || failed(chooseResults(context, plan)) ||
                 failed(take(findNeeded(context, plan.definitions, plan.roots()), plan.needed)));
}

/// Returns the names that the imported part of the graph reads.
static llvm::StringSet<> namesRead(const Plan &plan) {
  llvm::StringSet<> read;
  for (const NodeProto *node : plan.needed)
    forEachNameRead(*node, [&](StringRef name) { read.insert(name); });
  for (StringRef name : plan.roots())
    read.insert(name);
  return read;
}

/// Whether no node of the graph names a module.
static bool namesNoModule(const GraphProto &graph) {
  return llvm::none_of(graph.node(),
                       [](const NodeProto &node) { return !readScope(node).value_or("").empty(); });
}

/// Says what is not checked in a file without a record of the traced program.
static void noteMissingRecord(ImportContext &context) {
  if (!hasRecord(context.model.proto().graph()))
    context.note(
        "the file has no record of the traced program: whether PyTorch stops gradients (detach, no_grad) or divides them "
        "among equal elements otherwise than the graph shows is not checked. Export with torch.onnx.export(..., "
        "dynamo=True), or with tools/export/export.py, which also compares the gradients with PyTorch's");
}

/// Completes the body, once nodes are translated: makes the loss, binds the inputs and builds the
/// forward function.
static LogicalResult finish(ImportContext &context, const Plan &plan, const States &states,
                            ArrayRef<Gradient> gradients, const Translator &translator,
                            Workplace &at) {
  Loss loss;
  SmallVector<Value> values;
  LabelBinding bound;
  Inputs inputs;
  if (failed(take(makeLoss(context, plan.loss, translator.getLosses(), states, at.graph, at.inputs),
                  loss)) ||
      failed(take(readGradients(context, at.graph, states, gradients), values)) ||
      failed(take(bindInputs(context, states, loss.labeled, at.inputs), bound)) ||
      failed(take(chooseBatch(context, bound.inputs), inputs)))
    return failure();
  // A list of parameters, a training step or gradients say what is trained.
  if (!plan.training && gradients.empty()) {
    noteMissingRecord(context);
    if (!states.parameters.hasSignature)
      freezeUnreached(context, states, loss.value);
  }
  std::vector<NextValue> next;
  if (failed(take(nextValues(context, at.graph, states, plan.nextBuffers), next)))
    return failure();
  SmallVector<Value> returned{loss.value, loss.parts.sum, loss.parts.count};
  llvm::append_range(returned, values);
  for (const NextValue &each : next)
    returned.push_back(each.value);
  func::ReturnOp::create(context.builder, context.fileLocation(), returned);
  eraseDeadOps(context.body);
  if (failed(checkChangedBuffers(context, plan.definitions, plan.needed, states, plan.roots())))
    return failure();
  buildForward(context, inputs, states, gradients, next, ValueRange(returned).getTypes());
  describeModule(context, inputs, translator.getClasses());
  if (plan.training)
    describeOptimizer(context, plan.training->optimizer);
  if (!bound.note.empty())
    context.module->setAttr(nn::kLossAttr, context.builder.getStringAttr(bound.note));
  return success();
}

/// Imports the model of a context. `artifacts`: the other files of its folder, or null.
static LogicalResult importModel(ImportContext &context, const Artifacts *artifacts) {
  Workplace at(context);
  Plan plan;
  LostDropout lostDropout;
  States states;
  std::vector<Gradient> gradients;
  if (failed(makePlan(context, artifacts, at, plan)) ||
      failed(take(findLostDropout(context), lostDropout)) ||
      failed(checkSupported(context, plan.definitions, plan.needed, at.graph)) ||
      failed(declareInputs(context, plan.definitions, namesRead(plan), at.graph, at.inputs)) ||
      failed(take(declareStates(context, plan.definitions, plan.training, plan.nextBuffers),
                  states)) ||
      failed(take(matchGradients(context, plan.gradientOutputs, plan.loss, states), gradients)))
    return failure();
  const InitialValues initial = plan.initial();
  Translator translator(context, at.graph, at.inputs, at.folder,
                        {plan.definitions, states, initial}, lostDropout,
                        !gradients.empty() && namesNoModule(context.graph()));
  if (failed(translator.importNodes(plan.needed)) ||
      (gradients.empty() &&
       failed(checkStops(context, plan.needed, states, at.graph, plan.roots()))))
    return failure();
  return finish(context, plan, states, gradients, translator, at);
}

OwningOpRef<ModuleOp> onnx::importOnnx(StringRef path, const ImportOptions &options,
                                       MLIRContext *context, int *exitCode) {
  context->loadDialect<nn::NNDialect, func::FuncDialect>();
  context->loadAllAvailableDialects(); // plug-ins' handlers create ops of plug-ins' dialects
  auto fail = [&](int code) -> OwningOpRef<ModuleOp> {
    if (exitCode)
      *exitCode = code;
    return {};
  };
  Model::Failure failure;
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
  if (failed(importModel(shared, isFolder ? &artifacts : nullptr))) {
    body->dropAllDefinedValueUses();
    return fail(shared.getExitCode());
  }
  (void)body.release(); // owned by the function now
  widen16BitFloats(*module);
  if (failed(mlir::verify(module->getOperation())))
    return fail(SHALE_EXIT_INTERNAL);
  return module;
}
