// Flag names and values of PyTorch's, Hugging Face's, DeepSpeed's and torchtitan's trainers.
#include "runtime/program/Words.h"

#include <algorithm>
#include <cctype>

namespace shale::rt {

namespace {
/// Comma-separated names, and the hint: a flag of the program or, if it begins with ':',
/// one of the compiler.
struct Word {
  const char *names, *ours;
};
const Word words[] = {
    {"learning-rate,max-lr,base-lr,optimizer-lr", "--lr X"},
    {"min-learning-rate,min-lr-factor,lr-min,lr-end", "--min-lr X"},
    {"grad-clip,max-grad-norm,max-norm,gradient-clip-val,gradient-clipping,clip,clip-grad,grad-norm-clip",
     "--clip-grad-norm X"},
    {"max-steps,max-iters,train-steps,training-steps,num-steps,iters,iterations,train-iters,total-steps",
     "--steps N"},
    {"num-epochs,num-train-epochs,max-epochs,epoch,train-epochs", "--epochs X"},
    {"warmup-steps,warmup-ratio,warmup-iters,lr-warmup-iters,lr-warmup-steps,num-warmup-steps",
     "--warmup N, a number of steps"},
    {"lr-scheduler,lr-scheduler-type,scheduler,lr-schedule,lr-decay-style",
     "--schedule constant|cosine|linear|wsd"},
    {"wd,adam-weight-decay,decay", "--weight-decay X"},
    {"adam-beta1,adam-beta-1,b1", "--beta1 X"},
    {"adam-beta2,adam-beta-2,b2", "--beta2 X"},
    {"adam-epsilon,adam-eps,epsilon,optim-eps", "--eps X"},
    {"random-seed,data-seed,training-seed,manual-seed", "--seed N"},
    {"output-dir,out-dir,output,save-dir,save,dump-folder,job-dump-folder,logging-dir,log-dir",
     "--out DIR"},
    {"train-data,train-file,dataset,dataset-path,data-path,input,tokens,train-bin", "--data FILES"},
    {"val-data,validation-data,validation-file,eval-file,val-bin,test-data,valid-data",
     "--eval-data FILES"},
    {"eval-interval,eval-steps,val-interval,validation-freq,val-every", "--eval-every N"},
    {"eval-iters,limit-val-batches,val-max-steps,max-eval-samples", "--eval-batches N"},
    {"do-eval,evaluate,evaluate-only,validate,eval", "--eval-only"},
    {"save-steps,save-interval,checkpoint-interval,checkpoint-every,save-freq,ckpt-interval",
     "--save-every N"},
    {"save-total-limit,keep-latest-k,keep-last,max-checkpoints", "--keep N"},
    {"resume-from-checkpoint,load,load-checkpoint,checkpoint-path,ckpt-path,from-checkpoint",
     "--resume auto|must|FOLDER"},
    {"init-from,pretrained,model-name-or-path,weights,load-weights,init-checkpoint,from-pretrained,initial-load-path,finetune",
     "--init FILE|FOLDER|random:SEED"},
    {"state-dict-type,save-format,checkpoint-type", "--checkpoint sharded|full|both"},
    {"nproc-per-node,num-processes,world-size,ranks,np,num-gpus,gpus,devices", "--nproc N"},
    {"dtype,data-dtype,bin-dtype", "--token-dtype uint8|uint16|uint32|int32|int64"},
    {"shuffle", "shuffling is the default; --no-shuffle reads in file order"},
    {"dataloader-num-workers,num-workers", ""},
    {"timeout,ddp-timeout,nccl-timeout,init-timeout", "--comm-timeout SECONDS"},
    {"profile,profiler,enable-profiling",
     "--trace steps:A-B FILE, or SHALE_PROFILE=1 in the environment"},
    {"log-interval,logging-steps,log-freq,print-every", ""},
    {"batch,batch-size,per-device-train-batch-size,micro-batch-size,local-batch-size,global-batch-size,train-batch-size,micro-batch,device-batch-size,bs",
     ":--dim batch=N (--dim batch=N/rank for each rank's)"},
    {"sequence-length,seq-len,seq-length,block-size,context-length,max-seq-length,max-length",
     ":--dim sequence=N"},
    {"dim", ":--dim NAME=N"},
    {"gradient-accumulation-steps,grad-accum,accumulation-steps,accumulate,accumulate-grad-batches,grad-accum-steps",
     ":--accumulate N"},
    {"bf16,fp16,precision,mixed-precision,param-dtype,amp,half", ":--param-dtype f32|bf16|f16"},
    {"reduce-dtype,buffer-dtype,master-dtype,optimizer-dtype", ":the flag of that name"},
    {"optimizer,optim", ":--optimizer NAME"},
    {"no-decay", ":--no-decay REGEX"},
    {"freeze,requires-grad", ":--freeze REGEX"},
    {"shard,sharding-strategy,fsdp,zero-stage,stage,data-parallel-shard-degree,fsdp-sharding-strategy",
     ":--shard none|optimizer|grad|full and --mesh fsdp=N"},
    {"mesh,dp,data-parallel-replicate-degree", ":--mesh replica=N,fsdp=M"},
    {"gradient-checkpointing,activation-checkpointing,activation-checkpoint,recompute,ac-mode",
     ":--recompute none|block|selective"},
    {"cpu-offload,offload,fsdp-cpu-offload,enable-cpu-offload",
     ":--offload none|all|params,grads,optimizer"},
    {"memory-limit,target,unit,prefetch,loss,bind", ":the flag of that name"},
    {"compile,torch-compile", ""},
};

std::string canonical(std::string name) {
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  size_t dot = name.rfind('.'); // --training.steps
  if (dot != std::string::npos)
    name.erase(0, dot + 1);
  for (char &c : name)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

bool lists(const std::string &names, const std::string &name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}
} // namespace

std::string answerToFlag(const std::string &flag) {
  std::string name = canonical(flag.substr(0, flag.find('=')));
  if (name.empty() || name.find(',') != std::string::npos)
    return "";
  for (const Word &word : words) {
    if (!lists(word.names, name))
      continue;
    std::string ours = word.ours;
    if (ours.empty())
      return "is not needed; leave it out";
    if (ours[0] == ':')
      return "is fixed when the program is compiled: compile it again with shalec and " +
             ours.substr(1);
    return std::string("is not a flag of Shale: ") + (ours[0] == '-' ? "use " : "") + ours;
  }
  return "";
}

std::string ourValue(const std::string &flag, const std::string &typed) {
  static const struct {
    const char *flag, *values, *ours;
  } table[] = {
      {"--schedule", "constant-with-warmup,none,fixed", "constant, with --warmup N"},
      {"--schedule", "cosine-with-warmup,cosine-annealing,cosine-with-min-lr,cosineannealinglr",
       "cosine"},
      {"--schedule", "linear-with-warmup,linearlr", "linear"},
      {"--schedule", "warmup-stable-decay,trapezoid,trapezoidal", "wsd"},
      {"--checkpoint", "full-state-dict,consolidated,full-state,hf,huggingface", "full"},
      {"--checkpoint", "sharded-state-dict,sharded-state,distributed,dcp", "sharded"},
      {"--token-dtype", "u8,byte,char,bytes", "uint8"},
      {"--token-dtype", "u16,int16,short,ushort,half", "uint16"},
      {"--token-dtype", "u32,uint", "uint32"},
      {"--token-dtype", "i32,int", "int32"},
      {"--token-dtype", "i64,long,uint64", "int64"},
      {"--resume", "true,yes,latest,last,1", "auto (go on where there is a checkpoint) or must"},
      {"--resume", "false,no,none,0", "never"},
  };
  std::string value = canonical(typed);
  for (const auto &row : table)
    if (flag == row.flag && lists(row.values, value))
      return row.ours;
  return "";
}

} // namespace shale::rt
