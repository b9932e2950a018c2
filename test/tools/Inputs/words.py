"""For flags and values of other frameworks, shalec must end with 64 and name Shale's flag once."""
import subprocess
import sys

VALUES = {
    "--shard": {"FULL_SHARD": "--shard full", "SHARD_GRAD_OP": "--shard full --reshard-after-forward=false", "NO_SHARD": "--shard none",
                "HYBRID_SHARD": "--shard hybrid --mesh replica=M,fsdp=N", "zero1": "--shard optimizer", "zero2": "--shard grad",
                "ZeRO-3": "--shard full", "ddp": "--shard none"},
    "--param-dtype": {"bfloat16": "--param-dtype bf16", "torch.float16": "--param-dtype f16", "fp16": "--param-dtype f16",
                      "float32": "--param-dtype f32", "half": "--param-dtype f16"},
    "--optimizer-dtype": {"bfloat16": "--optimizer-dtype bf16"},
    "--master-dtype": {"fp32": "--master-dtype f32"},
    "--recompute": {"full": "--recompute block", "op": "--recompute selective"},
    "--offload": {"cpu": "--offload all"},
    "--optimizer": {"Adam": "--optimizer adamw"},
    "--reshard-after-forward": {"never": "--reshard-after-forward false"},
    "--prefetch": {"BACKWARD_PRE": "--prefetch 1"},
    "--unit": {"TRANSFORMER_BASED_WRAP": "--unit block, or class:NAME"},
    "--mesh": {"dp=2": "--mesh fsdp=N", "dp_replicate=2": "--mesh replica=M,fsdp=N"},
}
FLAGS = {
    "--batch-size": "--dim batch=N", "--fsdp_transformer_layer_cls_to_wrap": "--unit block|class:NAME", "--parallelism.data_parallel_shard_degree": "--mesh fsdp=N",
    "--zero-stage": "--shard none|optimizer|grad|full", "--bf16": "--param-dtype", "--activation_checkpoint.mode": "--recompute none|block",
    "--reduce_bucket_size": "--bucket-size SIZE", "--limit_all_gathers": "--max-gathers-in-flight N", "--fp32_reduce_scatter": "--reduce-dtype",
    "--gradient_accumulation_steps": "--accumulate N", "--seq-len": "--dim sequence=N", "--fsdp_offload_params": "--offload none|all", "--use_orig_params": "not needed",
    "--epochs": "a flag of the program that shalec makes", "--learning-rate": "--lr X of the program", "--steps": "./train --steps", "--grad_clip": "--clip-grad-norm X of the program",
}
count = 0
for command, ours in [([flag, value], ours) for flag, values in VALUES.items() for value, ours in values.items()] + [([flag, "1"], ours) for flag, ours in FLAGS.items()]:
    run = subprocess.run(["shalec", "model.onnx", *command], capture_output=True, text=True)
    answer = [line for line in run.stderr.splitlines() if ours in line and command[0].lstrip("-") in line]
    if run.returncode != 64 or len(answer) != 1 or run.stderr.count("error:") != 1 or run.stdout:
        sys.exit(f"{' '.join(command)}: ended with {run.returncode} and does not say '{ours}': {run.stderr}")
    count += 1
print(f"{count} words, each is answered")
