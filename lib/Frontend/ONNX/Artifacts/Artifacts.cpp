//===- Artifacts.cpp - ONNX Runtime's training artifacts ------------------===//
#include "lib/Frontend/ONNX/Artifacts/Artifacts.h"
#include "lib/Frontend/ONNX/Artifacts/Checkpoint.h"
#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Support/InputFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static constexpr llvm::StringLiteral kForward = "eval_model.onnx",
                                     kTraining = "training_model.onnx",
                                     kOptimizer = "optimizer_model.onnx",
                                     kCheckpoint = "checkpoint";
/// ONNX Runtime's suffix of the file of a checkpoint's external data.
static constexpr llvm::StringLiteral kExternal = "checkpoint.data";
static constexpr llvm::StringLiteral kBuffer = "_grad.accumulation.buffer";

std::unique_ptr<Model> onnx::openArtifacts(StringRef folder, Artifacts &artifacts,
                                           ToolError &failure) {
  auto path = [&](StringRef name) {
    SmallString<256> path(folder);
    llvm::sys::path::append(path, name);
    return path.str().str();
  };
  auto isFile = [&](StringRef name) { return llvm::sys::fs::is_regular_file(path(name)); };
  auto fail = [&](int code, const Twine &text) -> std::unique_ptr<Model> {
    failure = {(folder + ": " + text).str(), code};
    return nullptr;
  };
  if (isFile("config.json") && !isFile(kForward))
    return fail(SHALE_EXIT_DATA, "this is a folder of Hugging Face, not an ONNX model: "
                                 "tools/export/export.py " +
                                     folder + " -o model.onnx exports it");
  for (StringRef name : {kForward, kTraining, kOptimizer, kCheckpoint})
    if (!isFile(name))
      return fail(SHALE_EXIT_NO_INPUT,
                  "the folder has no file '" + name +
                      "': a folder must be one of ONNX Runtime's training artifacts "
                      "(training_model.onnx, eval_model.onnx, optimizer_model.onnx, checkpoint)");
  std::unique_ptr<Model> forward = Model::open(path(kForward), failure);
  if (!forward || !(artifacts.training = Model::open(path(kTraining), failure)) ||
      !(artifacts.optimizer = Model::open(path(kOptimizer), failure)) ||
      !(artifacts.checkpoint = openInput(path(kCheckpoint), failure)))
    return nullptr;
  return forward;
}

//===----------------------------------------------------------------------===//
// The optimizer of training artifacts
//
// The semantics are those of ONNX Runtime's operators AdamWOptimizer, SGDOptimizerV2 and
// InplaceClipGradNorm (com.microsoft, version 1).
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kWhere = "of optimizer_model.onnx: ";

// adam_mode 0 is PyTorch's AdamW: decay before the update, epsilon after the bias correction.
// adam_mode 1 is Transformers' AdamW: epsilon before the correction, decay after the update.
static LogicalResult readAdamW(ImportContext &context, const NodeProto &node,
                               FileOptimizer &optimizer) {
  NodeAttributes attributes(context, node, kWhere);
  FailureOr<bool> late = attributes.flag("adam_mode", false);
  FailureOr<bool> corrects = failed(late) ? late : attributes.flag("correct_bias", true);
  if (failed(corrects))
    return failure();
  optimizer.kind = nn::findOptimizer(*late ? "adam" : "adamw");
  if (failed(attributes.set({{"alpha", "beta1", 0.9f},
                             {"beta", "beta2", 0.999f},
                             {"epsilon", "eps", 1e-8f},
                             {"weight_decay", *late ? "decoupled_decay" : "weight_decay", 1e-2f}},
                            optimizer)))
    return failure();
  if (*late)
    optimizer.fixed["weight_decay"] = optimizer.fixed["shrink"] = 0;
  // The runtime passes the number of the update, from 1.
  optimizer.counter = *corrects ? nn::UpdateCounter{1, 1} : nn::UpdateCounter{0, 0};
  return attributes.finish();
}

static LogicalResult readSgd(ImportContext &context, const NodeProto &node,
                             FileOptimizer &optimizer) {
  optimizer.kind = nn::findOptimizer("sgd");
  optimizer.fixed["momentum"] = optimizer.fixed["weight_decay"] = 0;
  return NodeAttributes(context, node, kWhere).finish();
}

/// Reads the clip of gradients before the update.
static LogicalResult readClip(ImportContext &context, const NodeProto &node,
                              const NodeProto &update, FileOptimizer &optimizer) {
  NodeAttributes attributes(context, node, kWhere);
  const AttributeProto *type = attributes.take("norm_type");
  if (type && type->s() != "fro")
    return context.errorAt(node, kWhere + "norm_type {} is not fro", type->s());
  if (node.output_size() != 1 || !llvm::is_contained(update.input(), node.output(0)))
    return context.errorAt(node, kWhere + "does not clip the gradients of {}",
                           plain(placeOf(update)));
  if (failed(attributes.set({{"max_norm", "clip_grad_norm", 1.0}}, optimizer)) ||
      failed(attributes.finish()))
    return failure();
  if (optimizer.fixed["clip_grad_norm"] > 0)
    return success();
  return context.errorAt(node, kWhere + "max_norm is 0, so that no step changes anything");
}

/// Reads kind and constants of the optimizer of an optimizer_model.onnx: one AdamWOptimizer or
/// SGDOptimizerV2, after at most one InplaceClipGradNorm. Anything else is an error.
static LogicalResult readOptimizer(ImportContext &context, const Model &model,
                                   FileOptimizer &optimizer) {
  const NodeProto *update = nullptr, *clip = nullptr;
  for (const NodeProto &node : model.proto().graph().node()) {
    StringRef type = node.op_type();
    bool isUpdate = type == "AdamWOptimizer" || type == "SGDOptimizerV2";
    if (node.domain() != "com.microsoft" || (!isUpdate && type != "InplaceClipGradNorm"))
      return context.errorAt(
          node,
          kWhere +
              "only AdamWOptimizer, SGDOptimizerV2 and InplaceClipGradNorm (com.microsoft) are supported");
    if (std::exchange(isUpdate ? update : clip, &node))
      return context.errorAt(node, kWhere + "is the second one of its kind");
  }
  if (!update)
    return context.error("optimizer_model.onnx has no optimizer");
  optimizer.fixed["clip_grad_norm"] = 0;
  auto read = update->op_type() == "AdamWOptimizer" ? readAdamW : readSgd;
  return failed(read(context, *update, optimizer)) ? failure()
         : clip                                    ? readClip(context, *clip, *update, optimizer)
                                                   : success();
}

//===----------------------------------------------------------------------===//
// All files
//===----------------------------------------------------------------------===//

namespace {

class ArtifactReader {
public:
  ArtifactReader(ImportContext &context, Model &model, const Artifacts &artifacts)
      : context(context), artifacts(artifacts), graph(*model.mutableProto().mutable_graph()),
        step(artifacts.training->proto().graph()) {}

  FailureOr<FileTraining> read() {
    FileTraining training;
    if (llvm::Error error = readCheckpoint(artifacts.checkpoint->getBuffer()).moveInto(checkpoint))
      return context.error("checkpoint: {}", std::move(error));
    training.origin = kTraining.str();
    if (failed(readLoss(training)) || failed(addParameters(training)) || failed(restoreDropout()) ||
        failed(readOptimizer(context, *artifacts.optimizer, training.optimizer)) ||
        failed(readGroups(training.optimizer)))
      return failure();
    return training;
  }

private:
  /// The loss is the first output of both models. Removes the log-probabilities of losses, which
  /// ONNX Runtime always names, if nothing reads them.
  LogicalResult readLoss(FileTraining &training) {
    if (step.output_size() == 0 || graph.output_size() == 0 ||
        step.output(0).name() != graph.output(0).name())
      return context.error("the first outputs of training_model.onnx and eval_model.onnx, which "
                           "are the loss, differ: the files are not of one model");
    training.loss = graph.output(0).name();
    llvm::StringSet<> read = namesRead(graph);
    for (NodeProto &node : *graph.mutable_node())
      if (node.op_type() == "SoftmaxCrossEntropyLoss" && node.output_size() == 2 &&
          !read.contains(node.output(1)))
        node.mutable_output()->RemoveLast();
    return success();
  }

  /// Converts inputs of the forward graph to initializers if the checkpoint has values for them.
  LogicalResult addParameters(FileTraining &training) {
    for (const ValueInfoProto &input : graph.input())
      if (!inputs.try_emplace(input.name(), &input).second)
        return context.error("input {} is defined twice", input.name());
    llvm::StringSet<> updated;
    for (const ValueInfoProto &input : step.input())
      if (StringRef name = input.name(); name.consume_back(kBuffer))
        updated.insert(name);
    for (const CheckpointTensor &tensor : checkpoint.trained) {
      if (!updated.contains(tensor.name))
        return context.error(
            "checkpoint: training_model.onnx accumulates no gradient of {}, which is trained",
            tensor.name);
      if (failed(addParameter(tensor, training.parameters)))
        return failure();
    }
    for (const CheckpointTensor &tensor : checkpoint.frozen)
      if (failed(addParameter(tensor, training.frozen)))
        return failure();
    for (StringRef name : updated.keys())
      if (!added.contains(name))
        return context.error("checkpoint: it has no {}, which training_model.onnx trains", name);
    if (training.parameters.empty())
      return context.error("checkpoint: it has no parameter to train");
    return success();
  }

  LogicalResult addParameter(const CheckpointTensor &tensor, std::vector<std::string> &names) {
    if (!added.insert(tensor.name).second)
      return context.error("checkpoint: {} is defined twice", tensor.name);
    const ValueInfoProto *input = inputs.lookup(tensor.name);
    if (!input)
      return context.error("checkpoint: {} is no input of eval_model.onnx", tensor.name);
    names.push_back(tensor.name.str());

    TensorProto &proto = *graph.add_initializer();
    proto.set_name(tensor.name.str());
    proto.set_data_type(tensor.dataType);
    for (int64_t size : tensor.dims)
      proto.add_dims(size);
    const TypeProto::Tensor &type = input->type().tensor_type();
    if (!type.elem_type() || !type.has_shape() || contradicts(type, proto))
      return context.error("checkpoint: {} has another type than the input of eval_model.onnx",
                           tensor.name);
    proto.set_data_location(1);
    auto add = [&](const char *key, const std::string &value) {
      StringStringEntryProto &entry = *proto.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    add("location", (tensor.isExternal ? kExternal : kCheckpoint).str());
    add("offset", std::to_string(tensor.offset));
    if (tensor.length >= 0)
      add("length", std::to_string(tensor.length));
    return success();
  }

  /// The forward graph is that of evaluation. Its Dropout nodes get the training mode that those of
  /// the training graph have.
  LogicalResult restoreDropout() {
    llvm::StringMap<const NodeProto *> active; // in the training graph, by result
    for (const NodeProto &node : step.node()) {
      StringRef type = node.op_type();
      if (node.output_size() == 0 || !type.contains("Dropout") || type.ends_with("Grad"))
        continue;
      if (type != "Dropout" && type != "BitmaskDropout")
        return context.errorAt(node, "of training_model.onnx: dropout that ONNX Runtime fused "
                                     "with another operator is not supported");
      if (!isOff(node))
        active[node.output(0)] = &node;
    }
    if (active.empty())
      return success();
    TensorProto &yes = *graph.add_initializer();
    yes.set_name("shale.training_mode");
    yes.set_data_type(9);
    yes.add_int32_data(1);
    for (NodeProto &node : *graph.mutable_node()) {
      if (node.op_type() != "Dropout" || node.output_size() == 0 || !active.erase(node.output(0)))
        continue;
      while (node.input_size() < 3)
        node.add_input("");
      node.set_input(2, yes.name());
    }
    for (const auto &left : active)
      return context.errorAt(*left.second, "of training_model.onnx: eval_model.onnx has no "
                                           "Dropout with this result");
    return success();
  }

  /// Whether a Dropout of the training graph has no training mode, or a constant that is false.
  bool isOff(const NodeProto &node) const {
    if (node.input_size() < 3 || node.input(2).empty())
      return true;
    for (const TensorProto &tensor : step.initializer())
      if (tensor.name() == node.input(2))
        if (auto zero =
                llvm::expectedToOptional(artifacts.training->isZero(context.mlirContext(), tensor)))
          return *zero;
    return false;
  }

  /// Takes learning rate and step of the checkpoint's state of the optimizer.
  LogicalResult readGroups(FileOptimizer &optimizer) {
    optimizer.defaults["lr"] = 1e-3; // ONNX Runtime's
    if (checkpoint.groups.empty())
      return success();
    if (checkpoint.groups.size() > 1)
      return context.error(
          "checkpoint: it has {} groups of parameters: use one optimizer for all parameters",
          checkpoint.groups.size());
    const CheckpointGroup &group = checkpoint.groups.front();
    if (!(group.learningRate >= 0 && group.learningRate <= 1e6))
      return context.error("checkpoint: the learning rate is not from 0 to 1e6");
    optimizer.defaults["lr"] = group.learningRate;
    for (const CheckpointTensor &moment : group.moments) {
      StringRef data = artifacts.checkpoint->getBuffer().substr(moment.offset, moment.length);
      if (moment.isExternal || data.find_first_not_of('\0') != StringRef::npos)
        return context.error(
            "checkpoint: the moments of {} do not start at 0: a state of an optimizer that starts at other values is not supported; save the checkpoint without include_optimizer_state",
            moment.name);
    }
    if (group.step < 0 || group.step > (int64_t(1) << 50))
      return context.error("checkpoint: the step of the optimizer is negative or too large");
    if (optimizer.counter && optimizer.counter->step > 0)
      optimizer.counter->first += group.step;
    return success();
  }

  ImportContext &context;
  const Artifacts &artifacts;
  GraphProto &graph;      // of the forward pass
  const GraphProto &step; // of training
  Checkpoint checkpoint;
  llvm::StringMap<const ValueInfoProto *> inputs;
  llvm::StringSet<> added;
};

} // namespace

FailureOr<FileTraining> onnx::readArtifacts(ImportContext &context, Model &model,
                                            const Artifacts &artifacts) {
  return ArtifactReader(context, model, artifacts).read();
}
