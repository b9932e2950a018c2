//===- NNDialect.td - Computation on tensors ------------------------------===//
#ifndef SHALE_NN_DIALECT_TD
#define SHALE_NN_DIALECT_TD

include "mlir/IR/OpBase.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let summary = "Tensors of one training step";
  let description = [{
    The computation, in value semantics and with static shapes: the forward pass
    as it is imported, then the whole training step (forward, loss, backward,
    clipping, optimizer). This dialect does not describe ranks, memory or the
    order of execution.

    A module holds one `nn.state` per piece of state and the functions
    `@forward` (until autodiff), `@step` and `@evaluate` (after it). With
    `nn.accumulate = K` on the module a step consumes K micro-batches:
    `@accumulate_first` starts the sums of gradients, `@accumulate` adds to them,
    `@step` takes the last micro-batch and updates. Arguments of functions carry

    | attribute | meaning |
    |---|---|
    | `nn.state = @name` | the value of that state when the function begins; the new value is the result with the same attribute |
    | `nn.role = #nn.role<input>` | one of input, label, hyper, seed, step, microbatch (the last three: scalars that random ops draw from); on results: metric |
    | `nn.name = "x"` | the name that flags, files and metrics use |
    | `nn.binding = "tokens+1"` | how an input is bound to a token file |
    | `nn.batch_dim = 0 : i64` | the dimension that axes which split inputs divide |
    | `nn.gradient_of = @name` | on a result of `@forward`: the gradient of that parameter, which the model's file computes |
    | `nn.bound = 256 : i64` | an integer input's values are in [0, 256) |
    | `nn.ignored = -100 : i64` | another value, which labels may have |

    Ops and the module carry

    | attribute | on | meaning |
    |---|---|---|
    | `nn.scope = "h.0"` | ops | the module scope that the op comes from |
    | `nn.phase = #nn.phase<forward>` | ops | the part of the step: forward, backward, update |
    | `nn.part = #nn.part<@name, dim = 1, begin = 64>` | `nn.state` | the part of a divided parameter that it holds |
    | `nn.target = "cpu:native"` | module | the value of `--target` |
    | `nn.optimizer = "adamw"` | module, `nn.state` | the value of `--optimizer`, or the file's optimizer; on a parameter's state: the optimizer that updates it, if it is another one |
    | `nn.hypers`, `nn.hyper_defaults` | module | values of hyper-parameters by name: those that the file fixes, and defaults of the file |
    | `nn.counter` | module | the count of updates in the first update of the file, and what each one adds |
    | `nn.accumulate = 4 : i64` | module | micro-batches per step; absent: one |
    | `nn.precision = #nn.precision<...>` | module | the policy of element types |
    | `nn.file_type = bf16` | module | the 16-bit type in which the file keeps most parameters or computes most matmuls |
    | `nn.model = "model.onnx"` | module | the path of the model's file |
    | `nn.loss = "..."` | module | how labels are bound to the loss, for reports |
    | `nn.sizes = {batch = "8"}` | module | sizes of named dimensions, for reports |
    | `nn.outputs = {logits = "node"}` | module | the nodes that compute the outputs of the file |
    | `nn.classes = {"h.0" = "gpt2.GPT2Block"}` | module | the class of each module scope, as the exporter names it |
    | `nn.absent = ["head.bias"]` | module | parameters of the model that the program does not have: no op reads them, or they are frozen and were folded |
    | `nn.buffers = {"h.0.mask" = {persistent = true, type = tensor<4xf32>, init = #nn.file<...>}}` | module | the model's buffers: whether its state_dict has them, and where their values are |
  }];
  let cppNamespace = "::shale::nn";
  let discardableAttrs = (ins
    "::mlir::StringAttr":$scope,
    "::shale::nn::PhaseAttr":$phase,
    "::shale::nn::PartAttr":$part,
    "::mlir::StringAttr":$target,
    "::mlir::StringAttr":$optimizer,
    "::mlir::DictionaryAttr":$hypers,
    "::mlir::DictionaryAttr":$hyper_defaults,
    "::mlir::DenseI64ArrayAttr":$counter,
    "::mlir::IntegerAttr":$accumulate,
    "::shale::nn::PrecisionAttr":$precision,
    "::mlir::TypeAttr":$file_type,
    "::mlir::StringAttr":$model,
    "::mlir::StringAttr":$loss,
    "::mlir::DictionaryAttr":$sizes,
    "::mlir::DictionaryAttr":$outputs,
    "::mlir::DictionaryAttr":$classes,
    "::mlir::ArrayAttr":$absent,
    "::mlir::DictionaryAttr":$buffers,
    "::mlir::FlatSymbolRefAttr":$state,
    "::shale::nn::RoleAttr":$role,
    "::mlir::StringAttr":$name,
    "::mlir::StringAttr":$binding,
    "::mlir::IntegerAttr":$batch_dim,
    "::mlir::FlatSymbolRefAttr":$gradient_of,
    "::mlir::IntegerAttr":$bound,
    "::mlir::IntegerAttr":$ignored
  );
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    /// Adds the ops of one family. Its file calls this, so that only that file needs the ops.
    template <typename... Ops> void addFamily() { addOperations<Ops...>(); }
  }];
}

#endif // SHALE_NN_DIALECT_TD
