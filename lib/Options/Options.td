//===- Options.td - The flags of shalec, in the order of --help -----------===//
#ifndef SHALE_OPTIONS_OPTIONS_TD
#define SHALE_OPTIONS_OPTIONS_TD

include "lib/Options/Option.td"

//===----------------------------------------------------------------------===//
let group = "Model", effect = "Model" in {

def dims : Parsed<"dim", "NAME=N", "std::vector<DimSize>", "", "setDim",
    "size of a named dimension: batch=8 of the whole program, batch=2/rank of a rank, batch=max that fits --memory-limit"> {
  let example = "batch=2";
  let repeated = true;
}
def batchDims : Texts<"batch-dim", "INPUT:D",
    "input dimension that is split over ranks (default: dimensions named batch)"> {
  let example = "x:0";
}
def loss : Text<"loss", "FORM",
    "next-token:LOGITS | cross-entropy:LOGITS,LABELS | mse:OUT,TARGET | mean:OUT | sum:OUT"> {
  let example = "next-token:logits";
}
def lossOutput : Text<"loss-output", "NAME",
    "the output that is the loss, when several are scalars; or a weighted sum: lm=1,aux=0.01"> {
  let example = "loss";
}
def gradients : Texts<"gradient", "P=OUTPUT",
    "the output with the gradient of parameter P, in a graph of forward and backward (default: outputs named grad.P); none: ignore these outputs and derive the gradients"> {
  let example = "w=grad.w";
}
def binds : Parsed<"bind", "INPUT=WHAT", "std::vector<std::pair<std::string, std::string>>", "", "setBind",
    "what an input holds: tokens, tokens+1, ones, arange, or file: the data file has a tensor of that name"> {
  let example = "x=ones";
  let repeated = true;
}
def dropout : Text<"dropout", "RATIO|off",
    "the ratio of all dropouts in training mode (default: those of the file)"> {
  let example = "0.25";
  let get = "getString<&O::dropout>";
}

} // Model

//===----------------------------------------------------------------------===//
let group = "Training", effect = "Graph" in {

let ofUpdates = true in {
def optimizer : Policy<"optimizer", "NAME", "const ::shale::nn::Optimizer *", "::shale::nn::getOptimizers().front()",
    "the optimizer of the step"> {
  let help = "{optimizers} (default: {optimizer})";
  let example = "sgd";
  let passes = ["shale-assign-optimizers", "shale-autodiff"];
}
def freeze : Text<"freeze", "REGEX", "parameters that are not trained"> {
  let example = "w";
  let get = "getString<&O::freeze>";
  let passes = ["shale-freeze"];
}
def noDecay : Text<"no-decay", "REGEX", "parameters without weight decay"> {
  let example = "b";
  let get = "getString<&O::noDecay>";
  let passes = ["shale-no-decay"];
}
def lrScale : Policy<"lr-scale", "REGEX=X,..", "::shale::UpdateScales", "::shale::UpdateScales()",
    "factors on the learning rate of parameters"> {
  let example = "a{1,2}=0.5,b=2";
}
} // ofUpdates
def accumulate : Number<"accumulate", "K", 1, 65535, 1,
    "micro-batches per step, of --dim batch each (default: 1)"> {
  let passes = ["shale-autodiff"];
}

} // Training

//===----------------------------------------------------------------------===//
let group = "Precision", effect = "Graph", passes = ["shale-annotate-precision"] in {

def paramDtype : Policy<"param-dtype", "TYPE", "::shale::FloatKind", "::shale::FloatKind::F32",
    "f32 | bf16 | f16: parameters at use, activations, gathers (default: what the model is in)"> {
  let example = "bf16";
  let tried = ["f32", "bf16"];
  let rank = 3;
}
def reduceDtype : Policy<"reduce-dtype", "TYPE", "::shale::FloatKind", "::shale::FloatKind::F32",
    "f32 | bf16 | f16: gradients summed over ranks (default: f32)"> {
  let example = "f16";
}
def bufferDtype : Policy<"buffer-dtype", "TYPE", "::shale::FloatKind", "::shale::FloatKind::F32",
    "f32 | bf16 | f16 (default: f32)"> {
  let example = "bf16";
}
def masterDtype : Policy<"master-dtype", "TYPE", "::shale::MasterKind", "::shale::MasterKind::F32",
    "f32 | none: parameters at rest; none: in the param dtype (default: f32)"> {
  let example = "none";
}
def optimizerDtype : Policy<"optimizer-dtype", "TYPE", "::shale::MomentKind", "::shale::MomentKind::F32",
    "f32 | bf16: moments (default: f32)"> {
  let example = "bf16";
}

} // Precision

//===----------------------------------------------------------------------===//
let group = "Sharding" in {

let effect = "Graph", passes = ["shale-annotate-mesh"] in {
def mesh : Parsed<"mesh", "AXIS=N,..", "::shale::MeshSpec", "::shale::MeshSpec()", "setMesh",
    "axes of ranks, the last varies fastest; fsdp, replica, tp, ep, or names of your own with a kind: hosts:replica=2,gpus:shard=4 (default: fsdp=1)"> {
  let example = "hosts:replica=2,fsdp=4";
  let get = "get<&O::mesh>";
}
def shard : Policy<"shard", "STRATEGY", "::shale::Sharding", "::shale::Sharding::Full",
    "none (DDP) | optimizer (ZeRO-1) | grad (ZeRO-2) | full (ZeRO-3) | hybrid (full; requires a replica axis) (default: full if the mesh has a shard axis (fsdp) of 2 or more ranks, else none)"> {
  let example = "grad";
  let tried = ["none", "optimizer", "grad", "full"];
  let rank = 1;
}
} // shale-annotate-mesh
def tensor : Policy<"tensor", "REGEX=HOW,..", "::shale::TensorPlan", "::shale::TensorPlan()",
    "column | row | whole: what tensor axes (tp) split of these parameters: the outputs of their layer, its inputs, or nothing (default: what is found)"> {
  let example = "a{1,2}=column,b=row";
  let effect = "Graph";
  let passes = ["shale-annotate-tensor"];
}
def sequenceParallel : Policy<"sequence-parallel", "HOW", "::shale::SequenceParallel", "::shale::SequenceParallel::Auto",
    "auto | true | false: tensor axes split the rows of activations between matmuls; auto: where their number divides (default: auto)"> {
  let example = "false";
  let effect = "Graph";
  let passes = ["shale-split-sequence"];
}
def reshardAfterForward : Bool<"reshard-after-forward", "true",
    "full: gather again for backward (default: true)"> {
  let effect = "Plan";
  let passes = ["shale-annotate-mesh"];
  let tried = ["true", "false"];
  let rank = 7;
}
def unit : Policy<"unit", "POLICY", "::shale::UnitPolicy", "::shale::UnitPolicy()",
    "block | class:NAME | size:100M | match:REGEX: what is gathered at once"> {
  let example = "size:100K";
  let effect = "Graph";
  let passes = ["shale-annotate-units"];
  let tried = ["block"];
  let rank = 2;
}
let effect = "Plan" in {
def prefetch : Number<"prefetch", "N", 0, 1000, 1, "units gathered ahead of use (default: 1)"> {
  let example = "0";
  let passes = ["shale-prefetch-gathers", "shale-schedule-transfers"];
  let tried = ["1", "0", "2"];
  let rank = 8;
}
def maxGathersInFlight : Number<"max-gathers-in-flight", "N", 1, 1000, 2,
    "units that may be whole or in flight at once (default: 2)"> {
  let passes = ["shale-materialize-recompute", "shale-materialize-offload", "shale-verify-memory",
                "shale-prefetch-gathers", "shale-schedule-transfers", "shale-verify-scheduled"];
  let tried = ["2", "1", "3"];
  let rank = 9;
}
def bucketSize : Policy<"bucket-size", "SIZE", "::shale::BucketSize", "::shale::BucketSize()",
    "bytes of gradients reduced together, such as 25MiB; 0: one unit at a time; auto: 0 with full and hybrid, else 25MiB (default: auto)"> {
  let example = "4MiB";
  let passes = ["shale-bucket-reductions"];
  let tried = ["0", "25MiB", "4MiB"];
  let triedGathered = ["0", "25MiB"];
  let rank = 6;
}
def order : Policy<"order", "ORDER", "::shale::ReductionOrder", "::shale::ReductionOrder::Overlap",
    "overlap | memory: reduce a bucket of gradients while the next one is computed, or before it is computed (default: overlap)"> {
  let example = "memory";
  let passes = ["shale-bucket-reductions"];
  let tried = ["overlap", "memory"];
  let rank = 10;
}
} // Plan
def syncEveryMicrobatch : Bool<"sync-every-microbatch", "true",
    "grad, full, hybrid: reduce the gradients of each micro-batch; false: sum whole gradients, reduce once per step (default: true)"> {
  let effect = "Graph";
  let passes = ["shale-annotate-mesh"];
}

} // Sharding

//===----------------------------------------------------------------------===//
let group = "Memory and plan" in {

let effect = "Plan" in {
def recompute : Policy<"recompute", "POLICY", "::shale::RecomputePolicy", "::shale::RecomputePolicy()",
    "none | block[:0.5] | selective | auto | class:NAME | match:REGEX: forward results to recompute instead of keep; auto: the fastest of these, under --memory-limit if given (default: none)"> {
  let example = "block:0.25";
  let passes = ["shale-annotate-recompute"];
  let tried = ["none", "selective", "block", "block:0.25", "block:0.5", "block:0.75"];
  let shown = ["none", "selective", "block"];
  let rank = 4;
}
def lossChunk : Policy<"loss-chunk", "ROWS", "::shale::LossChunk", "::shale::LossChunk()",
    "auto | off | N: rows of logits in memory at once; off: all; auto: all if they take less than 64 MiB, else the target's number (default: auto)"> {
  let example = "512";
  let passes = ["shale-chunk-losses"];
}
def deterministic : Bool<"deterministic", "true",
    "library calls give the same bits in every run; false: a faster gradient of attention with less memory (default: true)"> {
  let passes = ["shale-call-attention"];
}
def allowTf32 : Switch<"allow-tf32",
    "GPUs: matmuls of f32 round their operands to TF32, 11 significant bits"> {
  let passes = ["shale-plan"];
}
def offload : Policy<"offload", "WHAT", "::shale::OffloadPolicy", "::shale::OffloadPolicy()",
    "none | all | params,grads,optimizer,activations, or a share of one (optimizer:0.5): kept in host memory"> {
  let example = "grads:0.5,activations";
  let passes = ["shale-annotate-offload"];
  // From the cheapest to the one that frees most memory.
  let tried = ["none", "optimizer", "activations:0.5", "activations", "optimizer,activations",
               "params,grads,optimizer", "all"];
  let shown = ["none", "optimizer", "activations", "all"];
  let rank = 5;
}
def threads : Parsed<"threads", "N", "int64_t", "0", "setNumber<&O::threads, 1, 65536>",
    "threads per rank assumed by the memory plan (default: CPUs / ranks)"> {
  let example = "3";
  let get = "getNumber<&O::threads>";
  let passes = ["shale-plan"];
}
} // Plan
def memoryLimit : Parsed<"memory-limit", "SIZE", "MemoryLimit", "", "setMemoryLimit",
    "limit of memory per rank: 40GiB (on a CPU: device and host together) or device=80GiB,host=100GiB; flags that are not given are chosen to fit"> {
  let example = "device=1GiB,host=2GiB";
  let effect = "Choice";
}
let effect = "Report" in {
def planOnly : On<"plan-only", "plan, print the verdict, and stop: no code, no weights needed">;
def compare : Parsed<"compare", "FLAG,..", "std::vector<Comparison>", "", "setComparison",
    "a table of plans, one for each combination: shard,recompute=none|block"> {
  let example = "shard,offload=none|params,grads";
}
def reports : Parsed<"report", "KIND", "std::vector<Report>", "", "addReport",
    "print a report: memory | comm | numerics | kernels; KIND=FILE writes it to a file (.json; memory also .html)"> {
  let example = "memory=file.json";
  let repeated = true;
}
def why : Texts<"why", "TENSOR",
    "plan, say why a tensor or a node's result is in memory, and stop"> {
  let example = "x";
}
} // Report
// Orders plans; the target's unless given.
def machine : Parsed<"machine", "NAME", "const Rates *", "nullptr", "setMachine",
    "whose rates predict times"> {
  let help = "{machines} | FILE.toml: whose rates predict times (default: that of --target)";
  let example = "h100";
  let effect = "Choice";
}

} // Memory and plan

//===----------------------------------------------------------------------===//
let group = "Output", effect = "Report" in {

def target : Text<"target", "TARGET", "the target of the program", "\"cpu:native\""> {
  let help = "{targets} (default: cpu:native)";
  let example = "cuda";
  let effect = "Model";
  let passes = ["shale-annotate-target"];
}
def emit : Parsed<"emit", "STAGE", "Emit", "Emit::Program", "setEmit",
    "nn | dist | rt | llvm | object | program (default: program)"> {
  let example = "rt";
}
def bundle : On<"bundle",
    "copy the shared libraries of the program to FILE.libs beside it, for machines without them"> {
  let effect = "Program";
}
def remarks : On<"remarks", "print what passes decided, and every repair of the model">;
def describe : On<"describe",
    "print inputs, parameters, blocks and loss of the model, and the commands that compile and train it">;

} // Output

//===----------------------------------------------------------------------===//
let group = "Extending Shale" in {

let effect = "Graph" in {
def matmulDtype : Policy<"matmul-dtype", "TYPE", "::shale::MatmulKind", "::shale::MatmulKind::Param",
    "param | fp8: operands of matmuls with parameters; fp8: e4m3, gradients e5m2 (default: the param dtype)"> {
  let example = "fp8";
}
def paramRounding : Policy<"param-rounding", "HOW", "::shale::RoundingKind", "::shale::RoundingKind::Nearest",
    "nearest | stochastic: with --master-dtype none, how new parameters of bf16 are rounded (default: nearest)"> {
  let example = "stochastic";
}
def wire : Policy<"wire-dtype", "TYPE", "::shale::WireTypes", "::shale::WireTypes()",
    "none | gather=int8|bf16|f16,reduce=int8,tensor=f32: parameters of f32 gathered in 16 bits, or parameters gathered, gradients summed as 8-bit integers with a scale per 256 of them; sums over tensor axes in f32, not in the param dtype; any of them (default: none)"> {
  let example = "gather=int8,reduce=int8";
  let passes = ["shale-annotate-mesh"];
}
def optimizerFor : Policy<"optimizer-for", "REGEX=NAME,..", "::shale::OptimizerChoices", "::shale::OptimizerChoices()",
    "with muon: muon or adamw, by parameter (default: muon: hidden matrices)"> {
  let example = "a{1,2}=adamw,b=muon";
  let ofUpdates = true;
  let passes = ["shale-assign-optimizers"];
}
} // Graph
// If not typed: relative where the weights lie in the folder of the program or below it.
def embedPath : Parsed<"embed-path", "HOW", "EmbedPath", "EmbedPath::Absolute", "setEmbedPath",
    "relative | absolute: paths of the weights in the program, from its folder or from the root (default: relative if the model is in that folder or below it)"> {
  let example = "absolute";
  let effect = "Program";
}
let effect = "Plan" in {
def attention : Policy<"attention", "HOW", "::shale::AttentionKind", "::shale::AttentionKind::Auto",
    "auto: the target's library where it supports the attention (docs/guide/gpu.md) | generated: matmuls and generated kernels (default: auto)"> {
  let example = "generated";
}
def fastMath : Switch<"fast-math",
    "GPUs: exp, tanh and divisions in kernels by the hardware's approximations, of 21, 11 and 22 bits"> {
  let passes = ["shale-plan"];
}
} // Plan
def constants : Texts<"constant", "NAME",
    "treat this initializer as a constant that depends on no parameter"> {
  let example = "c";
  let effect = "Model";
}
def remarksFilter : Parsed<"remarks-filter", "REGEX", "std::string", "", "setRemarksFilter",
    "print the remarks of passes whose name matches, or of import"> {
  let example = "plan";
  let effect = "Report";
}
let effect = "Model" in {
def keepPrefix : On<"keep-prefix",
    "keep the first component that all parameter names share, such as that of an export wrapper">;
def assumeAutocast : On<"assume-autocast",
    "assume that blocks exported under torch.no_grad() or torch.autocast() are autocast, so that gradients flow through them; the file does not distinguish the two">;
def assumeDerivative : Texts<"assume-derivative", "FUNCTION",
    "assume that the backward of this torch.autograd.Function, which is not in the file, is the derivative of its forward; FUNCTION is its class, or FILE:LINE of its call"> {
  let example = "Round";
}
def assumeForm : Texts<"assume-form", "OPERATION",
    "take the nodes of this operation, such as aten.mul.Tensor, as they are, if PyTorch's exporter wrote them in another form than shalec expects"> {
  let example = "aten.mul.Tensor";
}
def assumeMerged : Texts<"assume-merged", "OPERATION",
    "assume that operations of this kind, such as aten.softmax.int, which the export merged with others have the same gradients: the file does not show whether one was detached"> {
  let example = "aten.softmax.int";
}
def assumeTied : Parsed<"assume-tied", "true|false", "std::optional<bool>", "", "setBool<&O::assumeTied>",
    "true: transposed weights of a file of TorchScript's exporter that begin with equal elements are one parameter, where the file does not show it | false: each is a parameter of its own"> {
  let example = "true";
}
} // Model
def keepSingleRank : Bool<"keep-single-rank-collectives", "false",
    "keep collectives along axes of one rank, to check a communicator on one device (default: false)"> {
  let effect = "Graph";
  let passes = ["shale-annotate-mesh"];
}
def recover : On<"no-recover", "do not recover attention, norms and activations from their parts",
    /*init=*/"true", /*to=*/"false"> {
  let effect = "Model";
}
let effect = "Report" in {
def compileFrom : Text<"compile-from", "STAGE",
    "continue after this stage from MODEL, a dump of --save-temps, with the flags that the dump records"> {
  let example = "partition";
}
def saveTemps : Text<"save-temps", "DIR",
    "write the IR after each stage, one numbered file each"> {
  let example = "dir";
}
def savePasses : On<"save-temps-passes", "with --save-temps: after each pass too">;
def advice : On<"no-advice",
    "do not plan what other flags would change: a small program compiles faster by a sixth",
    /*init=*/"true", /*to=*/"false">;
} // Report
def plugins : Texts<"load-pass-plugin", "FILE",
    "a shared library with passes, dialects and operators (docs/plugins.md)"> {
  let example = "file.so";
  let effect = "Model";
}
def inserted : Parsed<"insert-pass", "WHERE", "std::vector<std::pair<std::string, std::string>>", "", "setInserted",
    "after:STAGE:PASSES: run these passes, of Shale or a plug-in, after a stage"> {
  let example = "after:partition:shale-annotate-ranges";
  let effect = "Graph";
  let get = "getInserted";
  let repeated = true;
}
let effect = "Report" in {
def printPasses : On<"mlir-print-ir-after-all",
    "print the IR to standard error after each pass that changes it">;
def crashReproducer : Text<"mlir-pass-pipeline-crash-reproducer", "FILE",
    "where a stage fails, write its input and passes, for shale-opt --run-reproducer"> {
  let example = "file";
}
} // Report

} // Extending Shale

#endif // SHALE_OPTIONS_OPTIONS_TD
