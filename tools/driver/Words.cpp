//===- Words.cpp - Shale's flags for those of other frameworks ------------===//
//
// The flags are those of torch.distributed.fsdp, accelerate's launcher (fsdp_...), DeepSpeed's
// JSON, FairScale's FSDP and torchtitan's TOML, as documented.
//
//===----------------------------------------------------------------------===//
#include "tools/driver/Words.h"
#include "dialects/nn/Optimizers.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include <algorithm>

using namespace shale;
using llvm::StringRef;

/// Lower case, words joined by -.
static std::string plain(StringRef word) {
  std::string text = word.trim().lower();
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

StringRef shale::flagForForeignWord(StringRef typed) {
  std::string text = plain(typed);
  StringRef word = text;
  if (size_t dot = word.rfind('.'); dot != StringRef::npos)
    word = word.substr(dot + 1);
  word.consume_front("fsdp-");
  return llvm::StringSwitch<StringRef>(word)
      .Cases({"sharding-strategy", "zero", "zero-stage", "stage", "fsdp", "ddp",
              "zero-optimization", "strategy", "zero1", "zero2", "zero3"},
             "--shard none|optimizer|grad|full")
      .Cases({"data-parallel-shard-degree", "dp-shard", "shard-degree", "num-processes",
              "world-size", "nproc-per-node", "data-parallel-degree", "data-parallel", "dp",
              "device-mesh", "num-gpus"},
             "--mesh fsdp=N")
      .Cases({"data-parallel-replicate-degree", "dp-replicate", "zero-hpz-partition-size",
              "num-replicas", "hsdp"},
             "--mesh replica=M,fsdp=N")
      .Cases({"tensor-parallel-degree", "tensor-parallel", "tp", "tensor-model-parallel-size",
              "model-parallel-size", "tp-size", "autotp-size", "parallelize-plan"},
             "--mesh fsdp=N,tp=M")
      .Cases({"pipeline-parallel-degree", "pp", "context-parallel-degree", "cp",
              "expert-parallel-degree", "pipeline-model-parallel-size"},
             "not supported: --mesh fsdp=N,tp=M splits the batch, the state and layers")
      .Cases({"auto-wrap-policy", "transformer-auto-wrap-policy", "transformer-layer-cls-to-wrap",
              "wrap", "min-num-params", "size-based-auto-wrap-policy", "auto-wrap", "wrap-policy",
              "module-wrap-policy"},
             "--unit block|class:NAME|size:100M|match:REGEX")
      .Cases({"mixed-precision", "dtype", "bf16", "fp16", "amp", "precision",
              "mixed-precision-param", "compute-dtype", "mp-policy", "torch-dtype", "half",
              "autocast"},
             "--param-dtype f32|bf16|f16 and --reduce-dtype")
      .Cases({"mixed-precision-reduce", "fp32-reduce-scatter", "communication-data-type",
              "grad-reduce-dtype", "keep-low-precision-grads"},
             "--reduce-dtype f32|bf16|f16")
      .Cases({"fp32-master-weights", "master-weights"}, "--master-dtype f32|none")
      .Cases({"optim-dtype", "optimizer-state-dtype", "moments-dtype"},
             "--optimizer-dtype f32|bf16")
      .Cases({"activation-checkpointing", "activation-checkpointing-policy",
              "gradient-checkpointing", "checkpointing", "activation-checkpoint",
              "checkpoint-wrapper", "selective-ac-option", "mode", "partition-activations", "remat",
              "ac"},
             "--recompute none|block|selective|auto")
      .Cases({"cpu-offload", "offload-optimizer", "offload-param", "offload-params",
              "offload-policy", "offload-optimizer-device", "offload-param-device",
              "enable-cpu-offload", "move-params-to-cpu", "move-grads-to-cpu", "offload-to-cpu",
              "cpu-checkpointing", "activation-offload"},
             "--offload none|all|params,grads,optimizer,activations")
      .Cases({"forward-prefetch", "backward-prefetch", "backward-prefetch-policy",
              "stage3-prefetch-bucket-size", "prefetch-factor"},
             "--prefetch N")
      .Cases({"limit-all-gathers", "stage3-max-live-parameters"}, "--max-gathers-in-flight N")
      .Cases({"reduce-bucket-size", "allgather-bucket-size", "bucket-cap-mb", "reduce-buffer-size"},
             "--bucket-size SIZE")
      .Cases({"overlap-comm"}, "--order overlap|memory")
      .Cases({"gradient-accumulation-steps", "grad-accum", "accumulate-grad-batches",
              "gradient-accumulation", "accumulation-steps", "grad-accumulation-steps"},
             "--accumulate N")
      .Cases({"no-sync", "require-backward-grad-sync"}, "--sync-every-microbatch=true|false")
      .Cases({"batch-size", "micro-batch-size", "train-micro-batch-size-per-gpu",
              "local-batch-size", "train-batch-size", "global-batch-size",
              "per-device-train-batch-size", "batch"},
             "--dim batch=N (of all ranks) or --dim batch=N/rank")
      .Cases({"seq-len", "sequence-length", "block-size", "max-seq-len", "seq-length", "max-length",
              "context-length", "sequence"},
             "--dim sequence=N")
      .Cases({"reshard-after-backward", "reshard-after-forward-policy"},
             "--reshard-after-forward=true|false")
      .Cases({"requires-grad", "frozen", "ignored-states", "ignored-modules", "ignored-params",
              "freeze-params"},
             "--freeze REGEX")
      .Cases({"optim", "opt", "optimizer-name"}, "--optimizer NAME")
      .Cases({"grad-clip", "max-grad-norm", "gradient-clipping", "max-norm", "clip", "clip-grad",
              "clip-norm"},
             "--clip-grad-norm X of the program, at run time")
      .Cases({"learning-rate"}, "--lr X of the program, at run time")
      .Cases({"max-steps", "num-steps", "train-steps", "iterations", "max-iters"},
             "--steps N of the program, at run time")
      .Cases({"num-train-epochs", "num-epochs", "max-epochs"},
             "--epochs X of the program, at run time")
      .Cases({"dataset", "dataset-path", "data-path", "train-data"},
             "--data FILE of the program, at run time")
      .Cases({"output-dir", "save-dir", "checkpoint-dir", "dump-folder"},
             "--out DIR of the program, at run time")
      .Cases({"state-dict-type", "zero3-save-16bit-model"},
             "--checkpoint sharded|full|both of the program, at run time")
      .Cases({"use-orig-params", "flatten-parameters", "contiguous-gradients", "sync-module-states",
              "compile", "zero3-init-flag", "cpu-ram-efficient-loading"},
             "not needed")
      .Default("");
}

static StringRef ourValue(StringRef flag, StringRef typed) {
  std::string text = plain(typed);
  StringRef value = text;
  value.consume_front("torch.");
  value.consume_front("shardingstrategy.");
  value.consume_front("-");
  if (flag == "shard")
    return llvm::StringSwitch<StringRef>(value)
        .Cases({"full-shard", "fullshard", "zero3", "zero-3", "stage3", "stage-3", "3", "fsdp",
                "fsdp1", "fsdp2", "fully-shard", "fully-sharded", "true", "zero"},
               "full")
        .Cases({"shard-grad-op"}, "full --reshard-after-forward=false")
        .Cases({"zero2", "zero-2", "stage2", "stage-2", "2", "sdp", "sharded-ddp", "shardedddp",
                "gradients"},
               "grad")
        .Cases({"zero1", "zero-1", "stage1", "stage-1", "1", "oss", "os", "optim"}, "optimizer")
        .Cases({"no-shard", "noshard", "ddp", "dp", "zero0", "zero-0", "stage0", "stage-0", "0",
                "false", "off", "replicate"},
               "none")
        .Cases({"hybrid-shard", "hsdp"}, "hybrid --mesh replica=M,fsdp=N")
        .Cases({"hybrid-shard-zero2"},
               "hybrid --reshard-after-forward=false --mesh replica=M,fsdp=N")
        .Default("");
  if (flag.ends_with("dtype")) {
    StringRef ours =
        llvm::StringSwitch<StringRef>(value)
            .Cases({"bfloat16", "bf16-mixed", "bfloat"}, "bf16")
            .Cases({"float16", "fp16", "half", "16", "fp16-mixed", "16-mixed"}, "f16")
            .Cases({"float32", "fp32", "float", "single", "32", "full", "fp32-mixed"}, "f32")
            .Default("");
    bool taken =
        flag == "master-dtype" ? ours == "f32" : flag != "optimizer-dtype" || ours != "f16";
    return taken ? ours : StringRef();
  }
  if (flag == "recompute")
    return llvm::StringSwitch<StringRef>(value)
        .Cases({"full", "true", "on", "all", "layer", "1", "blocks"}, "block")
        .Cases({"op", "ops", "sac", "selective-op"}, "selective")
        .Cases({"false", "off", "no", "0"}, "none")
        .Cases({"memory-budget"}, "auto")
        .Default("");
  if (flag == "offload")
    return llvm::StringSwitch<StringRef>(value)
        .Cases({"cpu", "true", "on", "host", "1"}, "all")
        .Cases({"param", "parameters", "weights"}, "params")
        .Cases({"grad", "gradients"}, "grads")
        .Cases({"optim", "optimizer-state", "optimizer-states"}, "optimizer")
        .Cases({"activation"}, "activations")
        .Cases({"false", "off", "no", "0"}, "none")
        .Default("");
  if (flag == "optimizer")
    return llvm::StringSwitch<StringRef>(value)
        .Cases({"adam", "adamw-torch", "fused-adam", "fusedadam", "adamw-torch-fused", "cpuadam",
                "deepspeedcpuadam"},
               "adamw")
        .Cases({"momentum", "nesterov", "sgd-momentum"}, "sgd, with --momentum X at run time")
        .Default("");
  if (flag == "reshard-after-forward")
    return llvm::StringSwitch<StringRef>(value)
        .Cases({"always", "default"}, "true")
        .Cases({"never"}, "false")
        .Default("");
  if (flag == "prefetch" || flag == "max-gathers-in-flight")
    return llvm::StringSwitch<StringRef>(flag == "prefetch" ? value : StringRef())
        .Cases({"backward-pre", "backward-post", "true"}, "1")
        .Cases({"none", "false", "no"}, "0")
        .Default("");
  if (flag == "unit")
    return llvm::StringSwitch<StringRef>(value)
        .Cases({"transformer-based-wrap", "transformer", "layer", "layers", "blocks",
                "transformer-auto-wrap-policy"},
               "block, or class:NAME")
        .Cases({"size-based-wrap", "size"}, "size:100M")
        .Default("");
  if (flag == "mesh")
    return llvm::StringSwitch<StringRef>(value.split('=').first)
        .Cases({"dp", "data", "ddp", "world", "dp-shard", "shard", "gpus", "ranks"}, "fsdp=N")
        .Cases({"dp-replicate", "replicate", "replicas"}, "replica=M,fsdp=N")
        .Default("");
  return "";
}

std::string shale::flagForForeignValue(StringRef flag, StringRef value) {
  StringRef ours = ourValue(flag, value);
  return ours.empty() ? "" : ("--" + flag + " " + ours).str();
}

bool shale::isProgramFlag(StringRef flag) {
  for (const nn::Optimizer *optimizer : nn::getOptimizers())
    for (const nn::HyperParameter &hyper : optimizer->hypers)
      if (hyper.source == nn::HyperSource::Flag && flag == plain(hyper.name))
        return true;
  return llvm::is_contained(
      {"data",           "token-dtype", "no-shuffle",     "eval-data",      "eval-every",
       "eval-batches",   "eval-only",   "steps",          "stop-after",     "lr",
       "schedule",       "warmup",      "min-lr",         "seed",           "out",
       "clip-grad-norm", "nproc",       "checkpoint",     "decay-fraction", "save-every",
       "keep",           "resume",      "init",           "init-map",       "epochs",
       "comm-timeout",   "trace",       "report-buffers", "report-device",  "tensorboard",
       "file-size",      "peak-tflops"},
      flag);
}
