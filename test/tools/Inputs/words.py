"""For flags and values of other frameworks, shalec must end with 64 and name Shale's flag once, or say why there is none.

usage: words.py ROOT

Asks for the words below, for those that docs/guide/from-fsdp.md shows with an answer, and for each word of foreign-words.txt. The table's flags of Shale must be those of --help-all. Spellings of Shale's own flags and values must be taken.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
PAGE = (ROOT / "docs/guide/from-fsdp.md").read_text()

VALUES = {
    "--shard": {"FULL_SHARD": "--shard full", "SHARD_GRAD_OP": "--shard full --reshard-after-forward=false", "NO_SHARD": "--shard none",
                "HYBRID_SHARD": "--shard hybrid --mesh replica=M,fsdp=N", "zero1": "--shard optimizer", "zero2": "--shard grad",
                "ZeRO-3": "--shard full", "ddp": "--shard none"},
    "--param-dtype": {"bfloat16": "--param-dtype bf16", "torch.float16": "--param-dtype f16", "fp16": "--param-dtype f16",
                      "float32": "--param-dtype f32", "half": "--param-dtype f16", "bf16-true": "--param-dtype bf16, with --master-dtype none", "fp8": "--param-dtype bf16, with --matmul-dtype fp8"},
    "--optimizer-dtype": {"bfloat16": "--optimizer-dtype bf16"},
    "--master-dtype": {"fp32": "--master-dtype f32"},
    "--recompute": {"full": "--recompute block", "op": "--recompute selective", "2": "use --recompute block:0.5", "unsloth": "--recompute block, with --offload activations"},
    "--offload": {"cpu": "--offload params,grads,optimizer", "nvme": "does not exist in Shale: --offload moves to host memory only"},
    "--optimizer": {"Adam": "--optimizer adamw, with --weight-decay 0", "sophia": "does not exist in Shale: the nearest is adamw, which is not the same", "Nesterov": "use --optimizer momentum, with --nesterov 1", "sgdm": "--optimizer sgd, with --momentum X", "paged_adamw_32bit": "--optimizer adamw"},
    "--attention": {"sdpa": "--attention auto", "xformers": "--attention auto", "eager": "--attention generated"},
    "--sequence-parallel": {"ulysses": "does not exist in Shale: sequences are not split over ranks"},
    "--matmul-dtype": {"mxfp8": "does not exist in Shale: matmuls in 8 bits have one scale per tensor", "rowwise": "does not exist in Shale: scales are per tensor"},
    "--reshard-after-forward": {"never": "--reshard-after-forward false"},
    "--prefetch": {"BACKWARD_PRE": "--prefetch 1"},
    "--unit": {"TRANSFORMER_BASED_WRAP": "--unit block, or class:NAME"},
    "--mesh": {"dp=2": "--mesh fsdp=N", "ddp=2": "--mesh fsdp=N --shard none", "dp_replicate=2": "--mesh replica=M,fsdp=N", "cp=2": "does not exist in Shale: context parallelism", "fsdp=2,pp=2": "does not exist in Shale: pipeline parallelism",
               "experts=2": "--mesh fsdp=N,ep=M"},
}
FLAGS = {
    "--batch-size": "--dim batch=N", "--fsdp_transformer_layer_cls_to_wrap": "--unit block|class:NAME", "--parallelism.data_parallel_shard_degree": "--mesh fsdp=N",
    "--zero-stage": "--shard none|optimizer|grad|full", "--bf16": "--param-dtype", "--activation_checkpoint.mode": "--recompute none|block",
    "--reduce_bucket_size": "--bucket-size SIZE", "--limit_all_gathers": "--max-gathers-in-flight N", "--fp32_reduce_scatter": "--reduce-dtype",
    "--gradient_accumulation_steps": "--accumulate N", "--seq-len": "--dim sequence=N", "--fsdp_offload_params": "use --offload params,grads,optimizer", "--use_orig_params": "not needed",
    "--epochs": "a flag of the program that shalec makes", "--learning-rate": "--lr X of the program", "--steps": "./train --steps", "--grad_clip": "--clip-grad-norm X of the program",
}
# What was typed in the words of the frameworks, and got no answer or a wrong one.
TYPED = {
    "--broadcast_fp16": "--wire-dtype gather=f16", "--reduce_fp16": "use --reduce-dtype f16", "--gradient_compression": "--wire-dtype reduce=int8",
    "--shard OSS+SDP": "use --shard grad", "--devices 2": "use --mesh fsdp=N", "--num-nodes 2": "use --mesh fsdp=N, with N ranks on all hosts together",
    "--profiling.enable_profiling": "use --trace steps:A-B FILE", "--profiling.save_traces_folder x": "use --trace", "--profiling.profile_freq 10": "use --trace",
    "--parallelism.fsdp_reshard_after_forward never": "use --reshard-after-forward=true|false; never is false", "--training.steps 10": "use --steps of the program",
    "--lr_scheduler.warmup_steps 2": "use --warmup N", "--lr_scheduler.decay_ratio 0.8": "use --decay-fraction X", "--lr_scheduler.decay_type linear": "use --schedule",
    "--lr_scheduler.min_lr_factor 0.1": "use --min-lr X", "--checkpoint.enable": "use --save-every N", "--checkpoint.folder x": "use --out DIR",
    "--checkpoint.interval 500": "use --save-every N", "--checkpoint.async_mode disabled": "use --async-save", "--checkpoint.keep_latest_k 2": "use --keep N",
    "--metrics.log_freq 10": "is not needed: every step is logged", "--metrics.enable_tensorboard": "use --tensorboard", "--metrics.enable_wandb": "does not exist in Shale",
    "--compile.enable": "is not needed: the program is compiled", "--job.config_file x.toml": "is not needed: there is no configuration file",
    "--optimizer.lr 8e-4": "use --lr of the program", "--optimizer.name AdamW": "use --optimizer NAME", "--log-every 10": "is not needed: every step is logged",
    "--zero_optimization.stage 2": "use --shard none|optimizer|grad|full", "--validation.steps 10": "use --eval-batches N", "--validation.freq 5": "use --eval-every N",
    "--parallelism_config_dp_shard_size 2": "use --mesh fsdp=N", "--fsdp_sharding_strategy FULL_SHARD": "use --shard none|optimizer|grad|full",
    "--parallelism.pipeline_parallel_degree 2": "does not exist in Shale: pipeline parallelism is not supported",
}
# Of things that sound like one of Shale's, or that Shale lacks.
TYPED |= {
    "--activation-offload": "use --offload activations, with --recompute or without", "--enable_activation_offload": "use --offload activations",
    "--activation_offloading": "use --offload activations", "--optimizer_offload": "use --offload optimizer", "--cpu_checkpointing": "use --recompute block --offload activations",
    "--activation_checkpointing.cpu_checkpointing": "use --recompute block --offload activations", "--compile.memory_policy x": "use --recompute none|block|selective|auto and --offload activations",
    "--sp_size 2": "does not exist in Shale: sequences are not split over ranks", "--quantize.linear.nvfp4": "and there are none in 4 bits", "--mxfp8": "one scale per tensor",
    "--expert_parallel": "use --mesh fsdp=N,ep=M", "--packing": "does not exist in Shale: tokens are cut into windows", "--rank 0": "use RANK, WORLD_SIZE",
    "--init_method env": "use RANK, WORLD_SIZE", "--lora_r 8": "does not exist in Shale: adapters", "--peft": "does not exist in Shale: adapters", "--backend nccl": "use --comm nccl|staged of the program, at run time, if",
    "--use_reentrant": "is not needed: --recompute is a decision", "--set_to_none": "no gradient outlives its step", "--FSDPStrategy": "use --shard none|optimizer|grad|full", "--memory_snapshot": "use --report memory=FILE.html",
    "--num_tokens_per_train_step 9": "and --accumulate K", "--load_in_4bit": "weights are f32, bf16 or f16", "--attn_implementation sdpa": "use --attention auto|generated", "--ema": "no average of the weights",
    "--z_loss": "the loss and its terms are part of the model", "--validator.steps 5": "use --eval-batches N", "--trl.epsilon 1": "does not exist in Shale: no step samples texts", "--vllm.device cuda": "does not exist in Shale",
    "--quantize bnb.nf4": "weights are f32, bf16 or f16", "--comms_logger.enabled": "use --trace steps:A-B FILE of the program, at run time; --report comm", "--overfit_batches 4": "use --data FILES of the program, at run time, with these rows only",
    "--optim_args x": "use the program's flags for its optimizer", "--zero_optimization.cpu_offload": "use --offload optimizer", "--optimizer.class_path x": "use --optimizer NAME",
    "--optimizer Lion": "use --optimizer lion", "--optimizer adam8bit": "use --optimizer adamw8bit, with --weight-decay 0",
    "--validator.dataloader.path x": "use --eval-data FILES", "--per_device_eval_batch_size 8": "use --dim batch=N/rank", "--max-tokens-to-oom 9": "does not exist in Shale",
    "--enable-full-sharding-in-hsdp": "does not exist in Shale: --shard hybrid has the state once per replica", "--unit always_wrap_policy": "does not exist in Shale: no policy",
    "--tensor_parallel.dtype bf16": "use --param-dtype", "--multi_gpu": "use --mesh fsdp=N, with --target cuda:sm_90a",
    "--flops_profiler.detailed": "use --trace steps:A-B FILE of the program, at run time, for times; metrics.jsonl has tflops", "--enable_model_summary": "use --describe", "--profiler_steps 3": "use --report memory=FILE.html for memory",
    "--no_local_rank": "the launcher's own flag", "--record_shapes": "use SHALE_PROFILE=1 in the environment, which prints the sizes", "--enable_fsdp_float8_all_gather": "--wire-dtype gather=int8 gathers them in 8 bits",
    "--stage3_max_reuse_distance 1000": "use --reshard-after-forward=true|false: whether units stay whole", "--no-wandb": "does not exist in Shale: metrics.jsonl", "--ckpt-keep-n 3": "use --keep N of the program, at run time, the newest; 0 keeps all", "--disable-msc": "are paths of the file system",
}
# Of another unit, scope or sign than the flag that sounds like them, or of another thing than the words beside them.
TYPED |= {
    "--eval-micro-batch-size 4": "use --dim batch=N/rank, of training and of evaluation", "--eval_delay 9": "does not exist in Shale: evaluations begin with the first step", "--apply-wd-to-qk-layernorm": "of what has none: all other parameters have decay",
    "--decoupled-lr 1e-4": "X is decoupled-lr / lr", "--decoupled-min-lr 1e-5": "does not exist in Shale: all parameters have one schedule", "--iter-per-epoch 9": "is not needed: an epoch is one pass over --data", "--recompute-num-layers 1": "for method uniform; block:0.5",
    "--overlap-grad-reduce": "but with --shard optimizer after it", "--overlap-param-gather": "which overlaps the gathers of --shard full", "--align-param-gather": "does not exist in Shale: pipeline parallelism", "--reduce-scatter-with-fp32-accumulation": "use --reduce-dtype bf16, which sends 16 bits",
    "--param-name-patterns-for-fp32-local-accumulation x": "is not needed: gradients of micro-batches", "--reduce_bucket_size 5e8": "in bytes, not elements or buckets", "--num-buckets 4": "use --bucket-size SIZE, in bytes", "--muon-scale-mode spectral": "1 is 0.2 times spectral",
    "--use-layer-wise-distributed-optimizer": "use --shard optimizer, with --optimizer muon too", "--override-ckpt-iteration": "does not exist in Shale: a resumed run goes on at the step", "--ckpt-convert-save x": "does not exist in Shale: no checkpoint is converted",
    "--strict-fsdp-dtensor-load": "a checkpoint of another model is refused", "--use-checkpoint-args": "are given again when it resumes", "--cross-entropy-loss-fusion": "is not needed: shalec generates and fuses", "--mlp-chunks-for-training 4": "does not exist in Shale: an MLP is not computed in tiles",
    "--dino-warmup-teacher-temp 0.04": "only the learning rate has a schedule", "--use-inference-optimized-layers": "does not exist in Shale: a program trains and evaluates", "--log-straggler": "use --trace steps:A-B FILE of the program", "--log-timers-to-tensorboard": "have no such field",
    "--log-memory-to-tensorboard": "use --report memory=FILE.html", "--timing-log-level 2": "SHALE_PROFILE=1 in the environment; the time of a whole step", "--moe-routing-trace-path x": "does not exist in Shale: metrics.jsonl has no such field", "--no-tp-comm-split-ag": "does not exist in Shale: matmuls are not cut",
    "--min-offloaded-tensor-size 9": "modules and sizes are not chosen", "--exit-interval 9": "use --stop-after N of the program, at run time, one step", "--exit-duration-in-mins 9": "use SIGTERM", "--train-sync-interval 9": "is not needed: at most two steps", "--fp32_norms": "does not exist in Shale: a norm computes in f32",
    "--curriculum_sampling": "use --no-shuffle of the program", "--dpo_use_liger_kernel": "does not exist in Shale: no step samples texts", "--large_head_attention sdpa": "use --attention auto|generated", "--loraplus_lr_embedding 1e-6": "use --lr-scale REGEX=X,..",
    "--use_otel_metrics": "use --prometheus FILE of the program", "--selective_checkpointing.offload": "use --recompute selective --offload activations", "--selective_checkpointing.save x": "use --recompute selective, or none", "--torchdistx_path x": "does not exist in Shale: the optimizers are",
    "--use_onebitllms": "does not exist in Shale: weights are f32", "--cpu_offload": "or --offload optimizer as DeepSpeed's", "--load_from x": "use --init FILE|FOLDER of the program", "--lr_decay_ratio 0.8": "does not exist in Shale: cosine and linear fall over all",
    "--max_steps_per_epoch 9": "of the whole run: epochs x steps", "--node-rank 1": "use torchrun on each host", "--nproc-per-node 8": "use --mesh fsdp=N, with N ranks on all hosts together", "--float8.filter_fqns x": "no other layer can be left out", "--comm_wrapper bf16": "use --reduce-dtype bf16|f16",
    "--distributed_type FSDP": "use --mesh fsdp=N and --shard", "--gpu_ids 2,3": "use CUDA_VISIBLE_DEVICES in the environment", "--include localhost:2,3": "CUDA_VISIBLE_DEVICES in the environment for the GPUs of a host", "--fp8_opt_level O2": "--optimizer adamw8bit for moments of 8 bits",
    "--expert_tensor_parallel_size 2": "there is no size of its own for experts", "--fp8_use_autocast_during_eval": "an evaluation multiplies in 8 bits", "--zero_optimization.leaf_module x": "is not needed: a unit is a whole block", "--split_batches": "use --dim batch=N/rank, or --dim batch=N",
    "--device cuda": "a device to which state is moved is --offload", "--gather_16bit_weights_on_model_save": "is not needed: model.safetensors is always written whole", "--tensor_parallel.partition_type row": "use --tensor REGEX=column", "--tensor_parallel.tp_overlap_comm": "matmuls are not cut into pieces",
    "--autotuning.mp_size 2": "use --mesh fsdp=N,tp=M", "--top_k 2": "the top k of a router is part of the ONNX file", "--output_dtype float32": "is not needed: norms, softmax and the loss", "--collate_fn x": "use --data FILES of the program", "--min_steps 9": "is not needed: a run goes on to --steps N",
    "--lr_decay_iters 9": "and no schedule ends before the run", "--gradient-dtype bf16": "use --matmul-dtype param|fp8: with fp8", "--attn-bwd-chunks 2": "use --deterministic=false", "--cooldown 9": "constant before and then falls linearly", "--training.dtype bfloat16": "--optimizer-dtype bf16 for bfloat16",
    "--num_tokens_per_microbatch_per_dp_rank 9": "use --dim batch=N/rank: N x sequence tokens", "--optimizer.optimizer_kwargs x": "use --lr-scale REGEX=X,.. (factors on --lr) and --no-decay REGEX", "--optimizer.implementation fused": "--optimizer-dtype bf16 for fused_opt_states_bf16",
    "--initial_load_model_only": "weights alone, for true; --resume FOLDER", "--lr_scheduler_kwargs x": "use --min-lr X of the program", "--warmup_num_steps 9": "DeepSpeed's is logarithmic by default", "--tensor-reduce-dtype f32": "use --wire-dtype tensor=f32", "--tp_reduce_dtype f32": "use --wire-dtype tensor=f32",
    "--prefetch BACKWARD_POST": "use --prefetch 0, which holds one unit", "--param-dtype bf16-true": "--optimizer-dtype bf16 --reduce-dtype bf16", "--shard zero": "use --shard optimizer, grad or full, for stage 1, 2 or 3", "--optimizer adamw_8bit": "use --optimizer adamw8bit, with --weight-decay 0",
    "--optimizer ao_adamw_4bit": "does not exist in Shale: the nearest is adamw8bit", "--optimizer galore_adafactor": "does not exist in Shale: the nearest is adafactor", "--optimizer adamw_hf": "adds epsilon before the bias correction", "--optimizer MuonWithAuxAdam": "with --lr 0.02 --adamw-lr 3e-4", "--optimizer FusedLamb": "with --weight-decay 0",
    "--distributed-timeout-minutes 10": "use --comm-timeout SECONDS of the program, at run time, not minutes", "--expert_backend x": "no kernel leaves them out", "--elasticity.micro_batch_sizes 2,4": "does not exist in Shale: the batch is fixed",
    "--transformers_version 5": "under any launcher", "--delay-wgrad-compute": "does not exist in Shale: with --mesh ep=M tokens are gathered", "--gpu-sniff-test-interval 9": "does not exist in Shale: no speed test runs between steps",
}
# Of a thing that Shale does in another way, or of one that the words beside them are not.
TYPED |= {
    "--num_processes 16": "use --mesh fsdp=N, with N ranks on all hosts together", "--use_megatron_lm": "use --mesh fsdp=N,tp=M for tensor parallelism, --shard optimizer", "--use_fsdp": "use --shard none|optimizer|grad|full",
    "--dynamic_checkpoint.check_interval 100": "does not exist in Shale: no checkpoint is written on request", "--dynamic_checkpoint.trigger_file_path x": "does not exist in Shale: no checkpoint is written on request",
    "--fix_untrained_tokens 5": "change the rows of untrained tokens there", "--flash_attn_cross_entropy": "is not needed: shalec generates and fuses", "--liger_cross_entropy": "is not needed: shalec generates and fuses",
    "--chunked_cross_entropy": "use --loss-chunk auto|off|N", "--use_scattermoe": "does not exist in Shale: each expert computes all rows of a rank", "--use_sonicmoe": "no kernel leaves them out", "--moe-grouped-gemm": "no kernel leaves them out",
    "--use-grouped-gemm-for-dense-mlp": "is not needed: shalec generates and fuses", "--dense_mixer": "a router has the gradient of the exported model", "--opt-v-dtype bf16": "of both moments, not of one alone", "--exp-avg-dtype bf16": "of both moments, not of one alone",
    "--adafactor": "whose rate is relative to the size of each parameter", "--optimizer torch.optim.Muon": "use --optimizer muon, with --weight-decay 0 --adamw-weight-decay 0", "--optimizer muon_adamw": "DeepSpeed's are those of MuonWithAuxAdam",
    "--no-python": "use the launcher's own flag, before the program", "--hatchery.save_steps 5": "use --save-every N of the program, at run time, a number of steps", "--hatchery.backend x": "no remote service trains for it", "--hatchery.lora_rank 8": "does not exist in Shale: adapters are part",
    "--hatchery.num_samples 8": "no step samples texts", "--main-grads-dtype bf16": "for sums over ranks; those of micro-batches are f32", "--differentiable": "does not exist in Shale: no gradient goes through an update", "--capturable": "is not needed: each update is one kernel",
    "--tensor_parallel.tp_overlap_comm": "no matmul is ordered to run beside it", "--no-tp-comm-bulk-wgrad": "no matmul is ordered to run beside it", "--tp-comm-overlap-ag": "does not exist in Shale: matmuls are not cut into pieces",
    "--otel-span-groups step": "use --trace steps:A-B FILE of the program, at run time, with spans", "--custom_sharded_layers x": "is not needed: --unit block, the default", "--max_iters 9": "N is max_iters divided by K of --accumulate",
    "--num_epochs 9": "a bound on passes", "--new-data": "which goes on at the row that the run has reached", "--elasticity.max_gpus 9": "the number of ranks is compiled into the program", "--elasticity.enabled": "use --max-restarts N of the program, at run time, on as many ranks as before",
    "--metrics.disable_color_printing": "use NO_COLOR=1 in the environment", "--metrics.save_for_all_ranks": "does not exist in Shale: metrics.jsonl has one line a step",
    "--shard 1": "optimizer for ZeRO's stage 1, full for FSDP's strategy 1", "--shard 2": "full --reshard-after-forward=false for FSDP's strategy 2", "--shard 3": "none for FSDP's strategy 3", "--shard 4": "use --shard hybrid --mesh replica=M,fsdp=N",
    "--offload-opt-v": "use --offload optimizer, of both moments", "--graph_harvesting": "replays its step as a CUDA graph", "--zero_optimization.reduce_scatter": "is not needed: the compiler plans the collectives", "--ignore_unused_parameters": "is not needed: the compiler knows the whole step",
    "--redirects 3": "use the launcher's own flag, before the program", "--offload cpu": "optimizer, as DeepSpeed's offload_optimizer", "--offload on": "use --offload params,grads,optimizer",
}
# Other spellings of Shale's own flags and values.
TAKEN = ["--optimizer AdamW", "--unit size:1e8", "--unit size:100m", "--unit size:100_000_000", "--unit Block", "--reshard_after_forward=False", "--shard FULL",
         "--Param_Dtype BF16", "--mesh FSDP=2"]
WRONG = ["--unit size:1e-3", "--unit size:1.5", "--unit size:e8", "--unit size:1e99", "--unit size:nan", "--unit size:-1e3", "--unit size:"]


PROGRAM = set(re.sub(r'["\s]', "", re.search(r"^TRAIN_FLAGS\((.*?)\)", (ROOT / "runtime/program/flags/ForeignWords.def").read_text(), re.S | re.M)[1]).split(","))
PROGRAM |= {"beta1", "beta2", "eps", "weight-decay", "momentum", "match-rms-adamw", "adamw-lr", "nesterov", "gradient-weight"} | {"help"}  # of optimizers, and of each program


def shalec(*words):
    return subprocess.run(["shalec", *words], capture_output=True, text=True)


count = 0
asked = [([flag, value], ours) for flag, values in VALUES.items() for value, ours in values.items()] + [([flag, "1"], ours) for flag, ours in FLAGS.items()]
asked += [(words.split(), ours) for words, ours in TYPED.items()]
asked += [(words.split(), ours.replace("\\|", "|")) for words, ours in re.findall(r"^\| `shalec (.*?)` \| `(.*)` \|$", PAGE, re.M)]
for command, ours in asked:
    run = shalec("model.onnx", *command)
    answer = [line for line in run.stderr.splitlines() if ours in line and command[0].lstrip("-") in line + run.stderr.splitlines()[0]]
    if run.returncode != 64 or len(answer) != 1 or run.stderr.count("error:") != 1 or run.stdout:
        sys.exit(f"{' '.join(command)}: ended with {run.returncode} and does not say '{ours}': {run.stderr}")
    count += 1
print(f"{count} words, each is answered")

# shalec answers each flag that it does not know, and guesses none of them by its letters.
options = set(re.findall(r"^ +(?:-h,)?--([\w-]+)", shalec("--help-all").stdout, re.M)) - {"help", "help-all", "version"}
keys = [line.split()[1] for line in (ROOT / "test/tools/Inputs/foreign-words.txt").read_text().splitlines() if not line.startswith("#")]
keys = [key for key in keys if key.lower().replace("_", "-") not in options]
run = shalec("model.onnx", *("--" + key for key in keys))
answers = dict(re.findall(r"^shalec: note: --(\S+) (is .*|does not exist in Shale: .*)$", run.stderr, re.M))
if run.returncode != 64 or (lost := [key for key in keys if key not in answers and key.lower().replace("_", "-") not in answers]):
    sys.exit(f"no answer to {lost}: {run.stderr[-500:]}")
if "did you mean" in run.stderr:
    sys.exit(f"a guess: {run.stderr}")
for key, answer in answers.items():  # that name flags
    if unknown := {flag for flag in re.findall(r"--([a-z][\w-]+)", answer)} - options - PROGRAM:
        sys.exit(f"--{key} {answer}: there is no --{unknown.pop()}")
print(f"{len(keys) // 1000}.. thousand words, each is answered")

for words in TAKEN + WRONG:
    run = shalec("missing.onnx", *words.split())
    if run.returncode != (66 if words in TAKEN else 64):
        sys.exit(f"{words}: ended with {run.returncode}: {run.stderr}")
for value in ("", "-", ".", ",", "|"):  # nobody's words
    run = shalec("missing.onnx", "--offload", value)
    if run.returncode != 64 or "in Shale" in run.stderr:
        sys.exit(f"--offload '{value}' ended with {run.returncode}: {run.stderr}")
print("other spellings are taken")

# A guess is for slips of the fingers, not for words that share letters with a flag.
for word, guess in {"shrad": "--shard", "sharrd": "--shard", "uni": "--unit", "sequence-paralel": "--sequence-parallel", "max-gathers-in-fligth": "--max-gathers-in-flight", "offloads": "--offload",
                    "orderly": "", "mint": "", "bonds": "", "on": "", "x" * 100000: "", "-".join("ab") * 40: "", "a." * 99: "", "a-" * 99: ""}.items():
    run = shalec("missing.onnx", "--" + word)
    if run.returncode != 64 or re.findall("did you mean (.*)[?]", run.stderr) != [guess] * bool(guess):
        sys.exit(f"--{word[:99]} ended with {run.returncode}: {run.stderr[-300:]}")
print("slips are guessed")
