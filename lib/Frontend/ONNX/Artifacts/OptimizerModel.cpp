//===- OptimizerModel.cpp - The optimizer of training artifacts -----------===//
//
// The semantics are those of ONNX Runtime's operators AdamWOptimizer, SGDOptimizerV2 and
// InplaceClipGradNorm (com.microsoft, version 1).
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Artifacts/Artifacts.h"
#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Training/StepGraph.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

class OptimizerReader {
public:
  OptimizerReader(ImportContext &context, FileOptimizer &optimizer)
      : context(context), optimizer(optimizer) {}

  LogicalResult read(const Model &model) {
    const NodeProto *update = nullptr, *clip = nullptr;
    for (const NodeProto &node : model.proto().graph().node()) {
      StringRef type = node.op_type();
      bool isUpdate = type == "AdamWOptimizer" || type == "SGDOptimizerV2";
      if (node.domain() != "com.microsoft" || (!isUpdate && type != "InplaceClipGradNorm"))
        return fail(node, "only AdamWOptimizer, SGDOptimizerV2 and InplaceClipGradNorm "
                          "(com.microsoft) are supported");
      const NodeProto *&place = isUpdate ? update : clip;
      if (place)
        return fail(node, "is the second one of its kind");
      place = &node;
    }
    if (!update)
      return context.error("optimizer_model.onnx has no optimizer");
    optimizer.place = placeOf(*update) + " of optimizer_model.onnx";
    optimizer.fixed["clip_grad_norm"] = 0;
    if (failed(update->op_type() == "AdamWOptimizer" ? readAdamW(*update) : readSgd(*update)))
      return failure();
    return clip ? readClip(*clip, *update) : success();
  }

private:
  template <typename... Parts>
  InFlightDiagnostic fail(const NodeProto &node, const char *pattern, Parts... parts) {
    return context.errorAt(node, "of optimizer_model.onnx: " + say(pattern, {Said(parts)...}));
  }

  /// Collects attributes; fails if one is defined twice or unknown.
  LogicalResult collect(const NodeProto &node, ArrayRef<StringRef> known) {
    attributes.clear();
    for (const AttributeProto &attribute : node.attribute()) {
      if (!llvm::is_contained(known, attribute.name()))
        return fail(node, "has no attribute {}", attribute.name());
      if (!attributes.try_emplace(attribute.name(), &attribute).second)
        return fail(node, "has attribute {} twice", attribute.name());
    }
    return success();
  }

  /// Sets a hyper-parameter to an attribute, whose default is `missing`.
  LogicalResult set(const NodeProto &node, StringRef name, StringRef hyperName, float missing) {
    const AttributeProto *attribute = attributes.lookup(name);
    if (attribute && !attribute->has_f())
      return fail(node, "attribute {} must be a float", name);
    double value = attribute ? attribute->f() : missing;
    const nn::HyperParameter *hyper = optimizer.kind->find(hyperName);
    if (!(value >= hyper->low && value <= hyper->high) ||
        (hyper->highExcluded && value == hyper->high))
      return fail(node, "attribute {} is {}, not from {}", name,
                  plain(llvm::formatv("{0}", value).str()),
                  plain(llvm::formatv("{0} to {1}{2}", hyper->low,
                                      hyper->highExcluded ? "below " : "", hyper->high)
                            .str()));
    optimizer.fixed[hyperName.str()] = value;
    return success();
  }

  FailureOr<bool> flag(const NodeProto &node, StringRef name, bool missing) {
    const AttributeProto *attribute = attributes.lookup(name);
    if (attribute && (!attribute->has_i() || (attribute->i() != 0 && attribute->i() != 1)))
      return fail(node, "attribute {} must be 0 or 1", name);
    return attribute ? attribute->i() == 1 : missing;
  }

  // adam_mode 0 is PyTorch's AdamW: decay before the update, epsilon after the bias correction.
  // adam_mode 1 is Transformers' AdamW: epsilon before the correction, decay after the update.
  LogicalResult readAdamW(const NodeProto &node) {
    if (failed(collect(node,
                       {"alpha", "beta", "epsilon", "weight_decay", "adam_mode", "correct_bias"})))
      return failure();
    FailureOr<bool> late = flag(node, "adam_mode", false);
    FailureOr<bool> corrects = failed(late) ? late : flag(node, "correct_bias", true);
    if (failed(corrects))
      return failure();
    optimizer.kind = nn::findOptimizer(*late ? "adam" : "adamw");
    if (failed(set(node, "alpha", "beta1", 0.9f)) || failed(set(node, "beta", "beta2", 0.999f)) ||
        failed(set(node, "epsilon", "eps", 1e-8f)) ||
        failed(set(node, "weight_decay", *late ? "decoupled_decay" : "weight_decay", 1e-2f)))
      return failure();
    if (*late)
      optimizer.fixed["weight_decay"] = optimizer.fixed["shrink"] = 0;
    // The runtime passes the number of the update, from 1.
    optimizer.counter = *corrects ? nn::UpdateCounter{1, 1} : nn::UpdateCounter{0, 0};
    return success();
  }

  LogicalResult readSgd(const NodeProto &node) {
    if (failed(collect(node, {})))
      return failure();
    optimizer.kind = nn::findOptimizer("sgd");
    optimizer.fixed["momentum"] = optimizer.fixed["weight_decay"] = 0;
    return success();
  }

  LogicalResult readClip(const NodeProto &node, const NodeProto &update) {
    if (failed(collect(node, {"max_norm", "norm_type"})))
      return failure();
    const AttributeProto *type = attributes.lookup("norm_type");
    if (type && type->s() != "fro")
      return fail(node, "norm_type {} is not fro", type->s());
    if (node.output_size() != 1 || !llvm::is_contained(update.input(), node.output(0)))
      return fail(node, "does not clip the gradients of {}", plain(placeOf(update)));
    attributes.erase("norm_type");
    if (failed(set(node, "max_norm", "clip_grad_norm", 1.0f)))
      return failure();
    return optimizer.fixed["clip_grad_norm"] > 0
               ? success()
               : fail(node, "max_norm is 0, so that no step changes anything");
  }

  ImportContext &context;
  FileOptimizer &optimizer;
  llvm::StringMap<const AttributeProto *> attributes;
};

} // namespace

LogicalResult onnx::readOptimizerModel(ImportContext &context, const Model &model,
                                       FileOptimizer &optimizer) {
  return OptimizerReader(context, optimizer).read(model);
}
