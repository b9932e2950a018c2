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
    | `nn.batch_dim = 0 : i64` | the dimension that data axes split |
    | `nn.gradient_of = @name` | on a result of `@forward`: the gradient of that parameter, which the model's file computes |
    | `nn.bound = 256 : i64` | an integer input's values are in [0, 256) |
    | `nn.ignored = -100 : i64` | another value, which labels may have |

    The state of a part of a parameter carries `nn.part = #nn.part<@name, dim = 1, begin = 64>`.

    Ops carry `nn.scope = "h.0"` (the module scope they came from) and
    `nn.phase = #nn.phase<forward>` (forward, backward, update) as discardable
    attributes. The module carries `nn.precision` (the policy of element types,
    `#nn.precision`), `nn.target` (the value of `--target`), `nn.optimizer` (the value of `--optimizer`, or the file's optimizer),
    `nn.hypers` and `nn.hyper_defaults` (the values of its hyper-parameters that the file fixes, and defaults of the file), `nn.counter` (the count of updates in the first
    update, and its increment), `nn.model` (the model file), `nn.loss` (a description of how labels are bound),
    `nn.absent` (parameters of the model that the program does not have, because no op reads them or because they are
    frozen and were folded: `["head.bias"]`), `nn.buffers` (the model's buffers: whether its state_dict has them, and
    where their values are: `{"h.0.mask" = {persistent = true, type = tensor<4xf32>, init = #nn.file<...>}}`) and
    `nn.classes` (the class of each module scope, as
    named by the exporter: `{"h.0" = "gpt2.GPT2Block"}`).
  }];
  let cppNamespace = "::shale::nn";
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
