// The program's answers to words of other trainers, and its guesses.
#include "runtime/program/flags/ForeignWords.h"
#include "runtime/program/flags/Words.h"

#include <fstream>
#include <gtest/gtest.h>
#include <tuple>

using namespace shale::rt;

namespace {
/// A program with AdamW.
bool isOwn(const std::string &name) {
  return isTrainFlag(name) || name == "beta1" || name == "beta2" || name == "eps" ||
         name == "weight-decay";
}

TEST(Words, OfOtherTrainersAreAnswered) {
  std::ifstream file(SHALE_WORDS);
  std::string line;
  int words = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#')
      continue;
    std::string word = line.substr(line.find(' ') + 1);
    ++words;
    if (isOwn(plainWord(word)))
      continue;
    std::string answer = answerToFlag("--" + word, isOwn);
    EXPECT_NE(answer, "") << line;
    // What is compiled in names a flag.
    const std::string compiled = "shalec and ";
    size_t at = answer.find(compiled);
    if (at != std::string::npos) {
      EXPECT_EQ(answer.compare(at + compiled.size(), 2, "--"), 0) << line << ": " << answer;
    }
  }
  EXPECT_GT(words, 3000);
}

TEST(Words, OfASectionMeanWhatTheSectionSays) {
  auto answer = [](const char *word) { return answerToFlag(word, isOwn); };
  EXPECT_NE(answer("--trl.epsilon").find("no step samples texts"), std::string::npos);
  EXPECT_NE(answer("--optimizer.lr").find("use --lr"), std::string::npos);
  EXPECT_NE(answer("--validator.steps").find("use --eval-batches"), std::string::npos);
  EXPECT_NE(answer("--zenflow.offload").find("--offload optimizer"), std::string::npos);
  EXPECT_NE(answer("--my.some_lora_rank=8").find("adapters"), std::string::npos);
  EXPECT_NE(answer("--optimizer.params.momentum").find("shalec and --optimizer sgd"),
            std::string::npos);
  auto sgd = [](const std::string &name) { return isOwn(name) || name == "momentum"; };
  EXPECT_EQ(answerToFlag("--optimizer.params.momentum", sgd),
            "is not a flag of Shale: use --momentum");
  EXPECT_EQ(answer("--explora"), ""); // no part of the word
  EXPECT_EQ(answer("--mylora_rank"), "");
}

// Words whose nearest flag means something else.
TEST(Words, AreNotTakenForTheirNeighbours) {
  const std::pair<const char *, const char *> means[] = {
      {"train_batch_size", "a step has N x K sequences"},
      {"training.dtype", "--master-dtype none"},
      {"tp-comm-overlap-ag", "matmuls are not cut into pieces"},
      {"overlap-param-gather-with-optimizer-step", "are gathered after the update"},
      {"use_seedable_sampler", "the order depends on --seed only"},
      {"global_batch_size", "--accumulate K"},
      {"train_micro_batch_size_per_gpu", "with shalec and --dim batch=N/rank"},
      {"grad_accum_dtype", "summed in f32"},
      {"ignored_modules", "--shard splits every parameter"},
      {"zero_hpz_partition_size", "no second copy"},
      {"allgather_bucket_size", "--unit"},
      {"sub_group_size", "one unit after the other"},
      {"stage3_module_granularity_threshold", "--unit"},
      {"quantized_initialization", "weights are f32, bf16 or f16"},
      {"layer_offloading", "--offload params"},
      {"activation_offload_fraction", "--offload activations:0.5"},
      {"recompute_num_layers", "block:0.5, a share of the blocks, for method block"},
      {"disable_loss_parallel", "the compiler finds"},
      {"checkpoint.load_only", "also saves"},
      {"checkpoint.exclude_from_loading", "the whole state of a run"},
      {"adam_w_mode", "adam, whose decay is part of the gradient"},
      {"optimizer-offload-fraction", "--offload optimizer:0.5, a share of it"},
      {"muon-nesterov", "use --nesterov 0|1"},
      {"offload_optimizer.ratio", "--offload optimizer:0.5, a share of it"},
      {"zero_optimization.ratio", "--offload optimizer:0.5, a share of it"},
      {"gradient-dtype", "with fp8 gradients of matmuls are e5m2"},
      {"quantize.linear.mx.recipe_name", "one scale per tensor"},
      {"mx.recipe_name", "one scale per tensor"},
      {"fp8_recipe.backend", "with parameters in bf16"},
      {"fp8-recipe", "there are no delayed, blockwise or mx scales"},
      {"check-for-spiky-loss", "a run stops only at numbers that are not finite"},
      {"check-for-large-grads", "a run stops only at numbers that are not finite"},
      {"iterations-to-skip", "no step is left out by its number"},
      {"scale_lr_cond", "--lr-scale REGEX=X,.."},
      {"number_checkpoints", "the plan lays out all memory"},
      {"save_muon_momentum_buffer_in_memory", "never to NVMe"},
      {"keep_low_precision_grads", "the type for the update is not chosen"},
      {"decoupled-weight-decay", "--optimizer adamw, or adam"},
      {"ignore_data_skip", "goes on where its data stopped"},
      {"new-data", "use --data-changed accept"},
      {"min_epochs", "a run goes on to --steps N or --epochs X"},
      {"consumed_samples", "a checkpoint has the position"},
      {"overwrite_output_dir", "--out DIR, a new one"},
      {"save_on_each_node", "one folder that all ranks share"},
      {"checkpoint.use_node_local_storage", "one folder that all ranks share"},
      {"use_node_local_storage", "one folder that all ranks share"},
      {"checkpoint.export_dtype", "convert model.safetensors afterwards"},
      {"num-distributed-optimizer-instances", "with --shard optimizer or hybrid"},
      {"outer-dp-sharding-strategy", "--shard hybrid for no_shard"},
      {"fault_tolerance.process_group", "a run that loses a rank ends"},
      {"save-retain-interval", "none is kept by an interval"},
      {"ckpt-major", "none is kept by an interval"},
      {"reset_optimizer", "weights without the optimizer's state"},
      {"early_stop", "has only what the gradients need"},
      {"te_recipe.interval", "a scale is computed from the tensor"},
      {"eval.interval", "use --eval-every N"},
      {"eval.max_iters", "use --eval-batches N"},
      {"num_iterations", "use --steps N; GRPO"},
      {"hybrid_sharding", "--shard hybrid --mesh replica=M,fsdp=N"},
      {"use_hybrid_shard", "--shard hybrid --mesh replica=M,fsdp=N"},
      {"fsdp_hybrid", "--shard hybrid --mesh replica=M,fsdp=N"},
      {"hybrid_full_shard", "--shard hybrid --mesh replica=M,fsdp=N"},
      {"eval_accumulation_steps", "the sum of its losses only"},
      {"prediction_loss_only", "the mean loss only"},
      {"gradient_accumulation_plugin.sync_each_batch", "--sync-every-microbatch=true"},
      {"flash_attn_rms_norm", "generates and fuses the kernels"},
      {"project_dir", "use --out DIR"},
      {"tensor_parallel.partition_config", "--tensor REGEX=column"},
      {"fsdp_version", "there is one implementation"},
      {"quantize", "weights are f32, bf16 or f16"}, // LitGPT's bnb.nf4
      {"quantize.grouped_mm.float8.fqns", "of the matmuls of linear layers"},
      {"overfit_batches", "--data FILES, with these rows only"},
      {"wall_clock_breakdown", "use --trace steps:A-B FILE"},
      {"comms_logger", "use --trace steps:A-B FILE"},
      {"flops_profiler.profile_step", "use --trace steps:A-B FILE"},
      {"activation_checkpointing.profile", "use --trace steps:A-B FILE"},
      {"save_first_step", "tries a save before its first step"},
      {"zero_optimization.cpu_offload", "shalec and --offload optimizer"},
      {"offload_to_cpu", "--offload activations, for a checkpoint_wrapper"},
      {"offload_config", "moves to host memory only"},
      {"max_in_cpu", "moves to host memory only"},
      {"offload_optimizer.fast_init", "moves to host memory only"},
      {"disable_reshard_on_root", "of all units alike"},
      {"reshard_after_backward", "frees a unit at the end of its backward pass"},
      {"log_with", "use --tensorboard; metrics.jsonl"},
      {"aim", "metrics.jsonl in --out DIR can be sent to it"},
      {"dataloader_drop_last", "each step has its whole batch"},
      {"optim_args", "--help of the program lists them"},
      {"optimizer.anything", "--help of the program lists them"},
      {"save_top_k", "no checkpoint is called the best"},
      {"unfrozen_parameters", "--freeze REGEX, of all other parameters"},
      {"epsilon", "the numbers of a preference loss"},
      {"eval_seed", "each evaluation reads the same rows"},
      {"check_val_every_n_epoch", "use --eval-every N, a number of steps"},
      {"lmhead_chunks", "--loss-chunk auto|off|N, a number of rows"},
      {"cooldown", "--decay-fraction X of the steps"},
      {"load_balance_coeff", "a bias of the router that no gradient reaches"},
      {"reference_model", "no second model is run"},
      {"checkpoint_dir", "--init FOLDER, if it has the weights"}, // of LitGPT; llmq writes to it
      {"tokens", "tokenize before training"},                     // axolotl adds them
      {"zero_quantized_nontrainable_weights", "at rest none is quantized"},
      {"prefetch_bucket_size", "--prefetch N, a number of units"},
      {"ddp_bucket_size", "--bucket-size SIZE, in bytes"},
      {"detect_anomaly", "with --param-dtype f16 it is left out"},
      {"device_map", "the device of its local rank"},
      {"low_cpu_mem_usage", "only the parts of the weights that it keeps"},
      {"broadcast_buffers", "buffers are equal on all ranks"},
      {"data_types", "summed in f32"},
      {"dump_state", "leave it out"},
      {"multiple_validation_sets", "--eval-data FILES, whose loss is one mean"},
      {"label_names", "--loss FORM, which names the labels"},
      {"project_configuration.total_limit", "use --keep N"},
      {"gradient_accumulation_plugin.adjust_scheduler", "a schedule follows from"},
      {"recompute_modules", "--recompute class:NAME|match:REGEX"},
      {"activation_checkpoint.memory_budget", "--recompute auto, under --memory-limit SIZE"},
      {"SHARD_GRAD_OP", "--shard full --reshard-after-forward=false"},
      {"use_distributed_optimizer", "shalec and --shard optimizer"},
      {"ddp", "shalec and --shard none"},
      {"hsdp", "shalec and --shard hybrid"},
      {"dtype", "for the tokens; --param-dtype of shalec"},
      {"torch_dtype", "shalec and --param-dtype"},
      {"device_mesh", "shalec and --mesh fsdp=N"},
      {"num_replicas", "use --nproc N"},
      {"hostfile", "torchrun on each host, or mpirun or srun"},
      {"use_ray", "as other launchers do"},
      {"numa_affinity", "a launcher or numactl binds them"},
      {"deepscale", "there is no configuration file"},
      {"config_file", "flags of both programs take its place"},
      {"print_config", "use --describe"},
      {"metrics", "every step is logged"},
      {"eigenvalue", "not pruned, shortened or quantized"},
      {"rerun_mode", "no step is computed twice to check it"},
      {"attention_softmax_in_fp32", "computed in f32, with any --param-dtype"},
      {"use_mup", "--lr-scale REGEX=X,.. for muP's rates"},
      {"no_rope_fusion", "generates and fuses the kernels"},
      {"dataloader_type", "windows of tokens in the order of the file"},
      {"DistributedSampler", "each rank reads rows of its own"},
      {"managed_gradient_accumulation", "summed over ranks and divided once"},
      {"gpu_memory_limit", "shalec and --memory-limit SIZE"},
      {"dynamic_checkpoint", "a signal saves and ends the run"},
      {"optimizer.class_path", "shalec and --optimizer NAME"},
      {"eval.initial_validation", "use --eval-only with --eval-data FILES"},
      {"every_n_epochs", "use --save-every N, a number of steps"},
      {"amsgrad", "not by its maximum"},
      {"ns_steps", "muon is Jordan's: five steps"},
      {"skip_grad_norm", "a factor on the mean norm"},
      {"final_lr", "a rate and not a factor"},
      {"fp32_allreduce", "--reduce-dtype f32, the default"},
      {"eval_delay", "cannot begin later"},
      {"exit_interval", "use --stop-after N, one step, counted from the start of the run"},
      {"max_steps_per_epoch", "of the whole run: epochs x steps of an epoch"},
      {"nproc_per_node", "use --nproc N on one host; on several"},
      {"machine_rank", "use torchrun on each host"},
      {"log_device_memory_used", "use --report-device FILE, if it is for GPUs"},
      {"check-weight-hash-across-dp-replicas-interval", "use --check-replicas N"},
      {"use_otel_metrics", "use --prometheus FILE"},
      {"optimizer.optimizer_kwargs", "for a group, --lr-scale and --no-decay of shalec"},
      {"expert_tensor_parallel_size", "there is no size of its own for experts"},
      {"tensor_parallel.partition_config.layer_specs", "shalec and --tensor REGEX=column"},
      {"elasticity.micro_batch_sizes", "the batch is fixed"},
      {"transformers_version", "under any launcher"}, // of SageMaker
      {"use_cache", "leave it out"},
      {"expert_backend", "no kernel leaves them out"},
      {"tp_reduce_dtype", "shalec and --wire-dtype tensor=f32"},
      {"num_processes", "use --nproc N on one host; on several"},
      {"use_megatron_lm", "shalec and --mesh fsdp=N,tp=M"},
      {"no_python", "use the launcher's own flag"},
      {"max_iters", "divided by K of --accumulate"},
      {"hatchery.save_steps", "use --save-every N"},
      {"hatchery.project_id", "no remote service trains for it"},
      {"tp_comm_bulk_wgrad", "no matmul is ordered to run beside it"},
      {"otel_span_groups", "with spans of kernels"},
      // By a part of the word, and without the prefix that turns it on.
      {"my_offload_policy", "--offload params,grads,optimizer,activations"},
      {"my_warmup", "use --warmup N"},
      {"enable_save_every", "use --save-every"},
      {"use_sharding_strategy", "shalec and --shard none|optimizer|grad|full"}};
  for (auto [word, says] : means) {
    std::string answer = answerToFlag(std::string("--") + word, isOwn);
    EXPECT_NE(answer.find(says), std::string::npos) << word << ": " << answer;
  }
}

TEST(Words, OfValuesKeepTheComputation) {
  EXPECT_EQ(answerToForeignValue("recompute", "2"), "'2': in Shale, use --recompute block:0.5");
  EXPECT_EQ(answerToForeignValue("optimizer", "Nesterov"),
            "'Nesterov': in Shale, use --optimizer momentum, with --nesterov 1 at run time");
  EXPECT_EQ(answerToForeignValue("schedule", "WarmupLR"),
            "'WarmupLR': in Shale, use --schedule constant, with --warmup N, which is linear; "
            "DeepSpeed's is logarithmic by default");
  EXPECT_EQ(answerToForeignValue("schedule", "cosine_with_restarts"),
            "'cosine_with_restarts' does not exist in Shale: a schedule does not restart; cosine "
            "falls once, to --min-lr");
  EXPECT_EQ(answerToForeignValue("mesh", "model"), "'model': in Shale, use --mesh fsdp=N,tp=M");
  EXPECT_NE(answerToForeignValue("mesh", "sp").find("sequences are not split"), std::string::npos);
  EXPECT_NE(answerToForeignValue("mesh", "pipe").find("pipeline parallelism is not supported"),
            std::string::npos);
  EXPECT_EQ(answerToForeignValue("mesh", "ddp"), "'ddp': in Shale, use --mesh fsdp=N --shard none");
  const std::tuple<const char *, const char *, const char *> values[] = {
      {"offload", "nvme", "moves to host memory only"},
      {"shard", "deepspeed_stage_3_offload", "use --shard full, with --offload params,optimizer"},
      {"shard", "deepspeed_stage_2_offload", "use --shard grad, with --offload optimizer"},
      {"param-dtype", "fp8", "use --param-dtype bf16, with --matmul-dtype fp8"},
      {"param-dtype", "no", "use --param-dtype f32"},
      {"param-dtype", "64-true", "nothing is computed in f64"},
      {"param-dtype", "bnb.nf4", "weights are f32, bf16 or f16"},
      {"optimizer-dtype", "8bit", "with --optimizer adamw8bit"},
      {"matmul-dtype", "bf16", "use --matmul-dtype param, with --param-dtype bf16"},
      {"matmul-dtype", "e4m3", "use --matmul-dtype fp8, whose gradients are e5m2"},
      {"recompute", "unsloth", "use --recompute block, with --offload activations"},
      {"recompute", "memory_budget", "use --recompute auto, under --memory-limit SIZE"},
      {"attention", "te", "use --attention auto"},
      {"attention", "math", "use --attention generated"},
      {"attention", "sage", "no attention in 8 bits"},
      {"schedule", "LinearLR", "--warmup N rises"},
      {"schedule", "inverse_sqrt", "constant, cosine, linear and wsd"},
      {"optimizer", "adamw_torch_fused", "use --optimizer adamw"},
      {"optimizer", "paged_adamw_8bit", "use --optimizer adamw8bit"},
      {"optimizer", "Adam", "adam adds the decay to the gradient"},
      {"optimizer", "SophiaG", "the nearest is adamw, which is not the same"},
      {"optimizer", "schedule_free_adamw", "the nearest is adamw, which is not the same"},
      {"optimizer", "my_galore_adamw_8bit", "the nearest is adamw, which is not the same"},
      {"optimizer", "ao_adamw_fp8", "the nearest is adamw8bit"},
      {"optimizer", "galore_adafactor", "the nearest is adafactor"},
      {"prefetch", "BACKWARD_POST", "use --prefetch 0"},
      {"shard", "zero", "optimizer, grad or full"},
      {"shard", "1", "optimizer for ZeRO's stage 1, full for FSDP's strategy 1"},
      {"shard", "5", "use --shard hybrid --reshard-after-forward=false"},
      {"offload", "cpu", "optimizer, as DeepSpeed's offload_optimizer"},
      {"optimizer", "soap", "the nearest is muon, which is not the same"},
      {"optimizer", "rmsprop_bnb", "the optimizers are adamw"},
      {"optimizer", "dist_muon", "use --optimizer muon, with --nesterov 0 --momentum 0.9"},
      {"optimizer", "MuonWithAuxAdam", "--adamw-weight-decay 0 --beta2 0.95"},
      {"schedule", "warmup_stable_decay", "use --schedule wsd, whose decay is linear"},
      {"optimizer", "paged_lion_8bit", "moments of 8 bits are those of adamw8bit"}};
  for (auto [flag, value, says] : values) {
    std::string answer = answerToForeignValue(flag, value);
    EXPECT_NE(answer.find(says), std::string::npos) << flag << " " << value << ": " << answer;
  }
  for (const char *value : {"frobnicate", "*lion*", "|", ",", ""})
    EXPECT_EQ(answerToForeignValue("optimizer", value), "") << value;
  EXPECT_EQ(answerToForeignValue("token-dtype", "half"), ""); // a float
}

TEST(Words, OfNobodyHaveNoAnswer) {
  for (const std::string &word :
       {std::string("--"), std::string("--*lora*"), std::string("--a|b"), std::string("--,"),
        std::string("--..."), std::string("--frobnicate"), "--" + std::string(100000, '-') + "q",
        "--" + std::string(100000, 'x'), "--a" + std::string(99, '.'),
        "--a" + std::string(99, '-')})
    EXPECT_EQ(answerToFlag(word, isOwn), "") << word.substr(0, 40);
}

TEST(Words, SlipsOfTheFingersAreGuessed) {
  const std::vector<std::string> names = {"steps", "seed",  "machine",     "bind",
                                          "help",  "order", "gather-dtype"};
  for (auto [word, guess] :
       std::initializer_list<std::pair<const char *, const char *>>{{"stpes", "steps"},
                                                                    {"stesp", "steps"},
                                                                    {"step", "steps"},
                                                                    {"sed", "seed"},
                                                                    {"gatherdtyp", "gather-dtype"},
                                                                    {"gat", "gather-dtype"},
                                                                    {"packing", ""},
                                                                    {"rank", ""},
                                                                    {"peft", ""},
                                                                    {"lora-r", ""},
                                                                    {"se", ""},
                                                                    {"", ""}})
    EXPECT_EQ(nearestWord(word, names), guess) << word;
  EXPECT_EQ(nearestWord(std::string(1 << 20, 'm'), names), "");
}
} // namespace
