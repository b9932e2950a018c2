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
#include "lib/Frontend/ONNX/Forward.h"
#include "lib/Frontend/ONNX/LabelBinding.h"
#include "lib/Frontend/ONNX/LossChoice.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Translator.h"
#include "lib/Frontend/ONNX/Widen.h"
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
    FailureOr<InitialValues> initial =
        computeInitialValues(context, plan.definitions, at.graph, at.inputs, at.folder);
    if (failed(initial))
      return failure();
    FailureOr<FileTraining> read =
        readTrainingInfo(context, plan.definitions.initializers, std::move(*initial));
    if (failed(read))
      return failure();
    plan.training = std::move(*read);
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
  FailureOr<GradientOutputs> gradients = findGradientOutputs(context);
  if (failed(gradients))
    return failure();
  FailureOr<LossChoice> loss = chooseLoss(context, *gradients);
  if (failed(loss))
    return failure();
  FailureOr<std::vector<NextBuffer>> buffers = readNextBuffers(context);
  if (failed(buffers))
    return failure();
  plan.nextBuffers = std::move(*buffers);
  plan.gradientOutputs = std::move(*gradients);
  plan.loss = std::move(*loss);
  return success();
}

static FailureOr<Plan> makePlan(ImportContext &context, const Artifacts *artifacts, Workplace &at) {
  FailureOr<llvm::StringMap<int64_t>> opsets = readOpsets(context);
  if (failed(opsets))
    return failure();
  at.graph.opsets = std::move(*opsets);
  FailureOr<std::optional<FileTraining>> training = completeGraph(context, artifacts);
  if (failed(training))
    return failure();
  FailureOr<Definitions> definitions = readDefinitions(context);
  if (failed(definitions))
    return failure();
  Plan plan;
  plan.definitions = std::move(*definitions);
  plan.training = std::move(*training);
  if (failed(readTraining(context, at, plan)) || failed(chooseResults(context, plan)))
    return failure();
  FailureOr<NodeSet> needed = findNeeded(context, plan.definitions, plan.roots());
  if (failed(needed))
    return failure();
  plan.needed = std::move(*needed);
  return plan;
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
  FailureOr<Loss> loss =
      makeLoss(context, plan.loss, translator.getLosses(), states, at.graph, at.inputs);
  if (failed(loss))
    return failure();
  FailureOr<SmallVector<Value>> values = readGradients(context, at.graph, states, gradients);
  if (failed(values))
    return failure();
  FailureOr<LabelBinding> bound = bindInputs(context, states, loss->labeled, at.inputs);
  if (failed(bound))
    return failure();
  FailureOr<Inputs> inputs = chooseBatch(context, bound->inputs);
  if (failed(inputs))
    return failure();
  // A list of parameters, a training step or gradients say what is trained.
  if (!plan.training && gradients.empty()) {
    noteMissingRecord(context);
    if (!states.parameters.hasSignature)
      freezeUnreached(context, states, loss->value);
  }
  SmallVector<Value> returned{loss->value, loss->parts.sum, loss->parts.count};
  llvm::append_range(returned, *values);
  FailureOr<std::vector<NextValue>> next = nextValues(context, at.graph, states, plan.nextBuffers);
  if (failed(next))
    return failure();
  for (const NextValue &each : *next)
    returned.push_back(each.value);
  func::ReturnOp::create(context.builder, context.fileLocation(), returned);
  eraseDeadOps(context.body);
  if (failed(checkChangedBuffers(context, plan.definitions, plan.needed, states, plan.roots())))
    return failure();
  buildForward(context, *inputs, states, gradients, *next, ValueRange(returned).getTypes());
  describeModule(context, *inputs, translator.getClasses());
  if (plan.training)
    describeOptimizer(context, plan.training->optimizer);
  if (!bound->note.empty())
    context.module->setAttr(nn::kLossAttr, context.builder.getStringAttr(bound->note));
  return success();
}

/// Imports the model of a context. `artifacts`: the other files of its folder, or null.
static LogicalResult importModel(ImportContext &context, const Artifacts *artifacts) {
  Workplace at(context);
  FailureOr<Plan> plan = makePlan(context, artifacts, at);
  if (failed(plan))
    return failure();
  FailureOr<LostDropout> lostDropout = findLostDropout(context);
  if (failed(lostDropout) ||
      failed(checkSupported(context, plan->definitions, plan->needed, at.graph)) ||
      failed(declareInputs(context, plan->definitions, namesRead(*plan), at.graph, at.inputs)))
    return failure();
  FailureOr<States> states =
      declareStates(context, plan->definitions, plan->training, plan->nextBuffers);
  if (failed(states))
    return failure();
  FailureOr<std::vector<Gradient>> gradients =
      matchGradients(context, plan->gradientOutputs, plan->loss, *states);
  if (failed(gradients))
    return failure();
  const InitialValues initial = plan->initial();
  Translator translator(context, at.graph, at.inputs, at.folder,
                        {plan->definitions, *states, initial}, *lostDropout,
                        !gradients->empty() && namesNoModule(context.graph()));
  if (failed(translator.importNodes(plan->needed)) ||
      (gradients->empty() &&
       failed(checkStops(context, plan->needed, *states, at.graph, plan->roots()))))
    return failure();
  return finish(context, *plan, *states, *gradients, translator, at);
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
