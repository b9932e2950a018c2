// Flags: one table for parsing, help and suggestions for misspelt flags.
#include "runtime/program/flags/Options.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Trace.h"
#include "runtime/program/flags/ForeignWords.h"
#include "runtime/program/flags/Words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

namespace shale::rt {

namespace {
/// Returns the flag that a word is likely a slip of; "" if none.
std::string nearest(const CLI::App &app, const std::string &flag) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back(name);
  std::string word = plainWord(flag.substr(0, flag.find('=')));
  return nearestWord(word.substr(word.rfind('.') + 1), names);
}

/// "5GB", "1.5GiB", "4096"; false for anything else, 0 included.
bool parseBytes(const std::string &text, int64_t &bytes) {
  char *end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  const std::pair<const char *, double> units[] = {
      {"", 1},      {"B", 1},        {"KB", 1e3},        {"MB", 1e6},          {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}};
  for (const auto &[unit, factor] : units)
    if (std::string(end) == unit && end != text.c_str() && number * factor >= 1 &&
        number * factor <= 9e18) {
      bytes = static_cast<int64_t>(number * factor);
      return true;
    }
  return false;
}

/// Wraps text into lines of at most 82 characters, aligned below one another.
std::string wrapped(std::string text) {
  std::string lines;
  while (text.size() > 82) {
    size_t space = text.rfind(' ', 82);
    if (space == std::string::npos)
      break;
    lines += text.substr(0, space) + "\n" + std::string(30, ' ');
    text.erase(0, space + 1);
  }
  return lines + text;
}

/// "--flag VALUE  what it does (default)", grouped.
std::string helpText(const CLI::App &app, const std::string &program) {
  std::string text = format("Trains %s. Usage: train --data FILE [flags]\n", program.c_str());
  std::vector<std::string> groups;
  for (const CLI::Option *option : app.get_options())
    if (!option->get_group().empty() &&
        std::find(groups.begin(), groups.end(), option->get_group()) == groups.end())
      groups.push_back(option->get_group());
  for (const std::string &group : groups) {
    text += group + ":\n";
    for (const CLI::Option *option : app.get_options()) {
      if (option->get_group() != group)
        continue;
      std::string left = "--" + option->get_lnames().front();
      if (option->get_type_size() > 0)
        left += " " + option->get_type_name();
      std::string right = option->get_description();
      if (!option->get_default_str().empty())
        right += " (" + option->get_default_str() + ")";
      text += format("  %-27s %s\n", left.c_str(), wrapped(right).c_str());
    }
  }
  return text;
}

/// A hyper-parameter that the model's file may fix, its flag and the flag's value.
struct Fixed {
  const CLI::Option *option;
  const ShaleHyper *hyper;
  double *value;
};

/// Returns which flag contradicts what the model's file fixes; "" if none does. Flags that repeat
/// the file set its value, which may have more digits. A fixed learning rate has no schedule.
std::string contradiction(const std::vector<Fixed> &all, const Options &o) {
  for (const Fixed &one : all) {
    if (!one.hyper->fixed)
      continue;
    std::string flag = "--" + one.option->get_lnames().front();
    std::string because = format("the model's file, whose optimizer fixes %s at %.9g",
                                 one.hyper->name, static_cast<float>(one.hyper->value));
    if (static_cast<float>(*one.value) != static_cast<float>(one.hyper->value))
      return format("%s %.9g contradicts %s; leave the flag out", flag.c_str(), *one.value,
                    because.c_str());
    *one.value = one.hyper->value;
    bool isRate = one.hyper->source == SHALE_HYPER_LEARNING_RATE;
    if (isRate && o.schedule != "constant")
      return format("--schedule %s contradicts %s; leave the flag out", o.schedule.c_str(),
                    because.c_str());
    if (isRate && o.warmup > 0)
      return format("--warmup %lld contradicts %s; leave the flag out", (long long)o.warmup,
                    because.c_str());
  }
  return "";
}

/// The flags of one program: declares them, parses a command line, and checks the values against
/// each other and against the program.
class FlagParser {
public:
  explicit FlagParser(const ShaleProgram &program);
  Parsed run(int argc, const char *const *argv);

private:
  template <typename T>
  CLI::Option *number(const char *group, const char *flag, T &value, const char *type,
                      const char *about, double low, double high, bool highExcluded = false);
  CLI::Option *text(const char *group, const char *flag, std::string &value, const char *type,
                    const char *about);
  CLI::Option *choice(const char *group, const char *flag, std::string &value, const char *type,
                      const std::vector<std::string> &values, const char *about);

  void addDataFlags();
  void addWeightFlags();
  void addOptimizationFlags();
  void addHyperFlags(const char *group, CLI::Option *lr);
  void addForeignFlags();
  void addOutputFlags();
  void addRankFlags();
  void addDeviceFlags(const char *group);

  bool isOwn(const std::string &name) const {
    return !name.empty() && app.get_option_no_throw("--" + name);
  }
  Parsed refuse(const std::string &message);
  // Each check returns what is wrong, "" if nothing is.
  std::string checkExtra();
  std::string checkOptimization();
  std::string checkEvaluation();
  std::string checkResume();
  std::string checkEmpty();
  std::string readFileSize();
  std::string readTrace();
  void recordValues();

  const ShaleProgram &program;
  Parsed parsed;
  Options &o = parsed.options;
  CLI::App app;

  // Flags of which it matters whether they were given.
  CLI::Option *tokenDtype = nullptr, *evalBatches = nullptr, *steps = nullptr, *epochs = nullptr,
              *seed = nullptr, *resume = nullptr;
  std::vector<Fixed> fixed;
  std::vector<CLI::Option *> foreign; ///< of other optimizers
  // Values that Options has in another form.
  bool help = false, noShuffle = false, noGraph = false;
  std::string tuneMatmuls = "true", fileSize = "5GB";
  std::vector<std::string> trace;
};

/// The largest value of flags that count: a double holds it exactly.
constexpr double kMostCounted = 9e15;

FlagParser::FlagParser(const ShaleProgram &program) : program(program) {
  app.set_help_flag();
  app.allow_extras();
  addDataFlags();
  addWeightFlags();
  addOptimizationFlags();
  addOutputFlags();
  addRankFlags();
}

template <typename T>
CLI::Option *FlagParser::number(const char *group, const char *flag, T &value, const char *type,
                                const char *about, double low, double high, bool highExcluded) {
  constexpr bool whole = std::is_integral_v<T>;
  return app.add_option(flag, value, about)
      ->group(group)
      ->type_name(type)
      ->check(
          [=](const std::string &typed) -> std::string {
            if (whole && typed.find_first_not_of("0123456789", typed[0] == '-') < typed.size())
              return format("takes a whole number from %g to %g", low, high);
            char *end = nullptr;
            double x = std::strtod(typed.c_str(), &end);
            if (*end || typed.empty() || !(x >= low && x <= high) || (highExcluded && x == high))
              return format("takes a number from %g to %s%g", low, highExcluded ? "below " : "",
                            high);
            return "";
          },
          "")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->capture_default_str();
}

CLI::Option *FlagParser::text(const char *group, const char *flag, std::string &value,
                              const char *type, const char *about) {
  return app.add_option(flag, value, about)
      ->group(group)
      ->type_name(type)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->capture_default_str();
}

CLI::Option *FlagParser::choice(const char *group, const char *flag, std::string &value,
                                const char *type, const std::vector<std::string> &values,
                                const char *about) {
  return text(group, flag, value, type, about)
      ->check(
          [values, flag](const std::string &typed) -> std::string {
            std::string list, answer = answerToForeignValue(plainWord(flag), typed);
            if (!answer.empty() && std::find(values.begin(), values.end(), typed) == values.end())
              return answer;
            for (const std::string &known : values) {
              if (typed == known)
                return "";
              list += (list.empty() ? "" : ", ") + known;
            }
            return "takes one of " + list;
          },
          "")
      ->transform([values](const std::string &typed) {
        std::string lower = plainWord(typed);
        return std::find(values.begin(), values.end(), lower) == values.end() ? typed : lower;
      });
}

void FlagParser::addDataFlags() {
  const char *g = "Data";
  text(g, "--data", o.data, "FILES",
       "tokens (.bin, .npy) or batches (.safetensors): a file, several with "
       "commas between, a folder");
  tokenDtype = choice(
      g, "--token-dtype", o.tokenDtype, "TYPE", {"uint8", "uint16", "uint32", "int32", "int64"},
      "type of tokens in files without a header: uint8, uint16, uint32, int32, int64");
  app.add_flag("--no-shuffle", noShuffle, "read windows of tokens in file order")->group(g);
  text(g, "--eval-data", o.evalData, "FILES", "evaluate on these at the end");
  number(g, "--eval-every", o.evalEvery, "N", "also evaluate every N steps; 0: only at the end", 0,
         kMostCounted);
  evalBatches =
      number(g, "--eval-batches", o.evalBatches, "N",
             "micro-batches per evaluation; --eval-only evaluates all by default", 1, kMostCounted);
  app.add_flag("--eval-only", o.evalOnly,
               "evaluate --init or the newest checkpoint of --out, train nothing")
      ->group(g);
}

void FlagParser::addWeightFlags() {
  const char *g = "Weights";
  text(g, "--init", o.init, "WHAT",
       "start from FILE.safetensors, a Hugging Face folder, or random:SEED "
       "(normal, with the mean and deviation of each parameter at compile time; "
       "constant parameters and buffers keep their values)");
  app.add_option("--init-map", o.initMap,
                 "rename tensors of --init; OLD: a regular expression matched "
                 "at a name's start; can be repeated")
      ->group(g)
      ->type_name("OLD=NEW")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void FlagParser::addOptimizationFlags() {
  const char *g = "Optimization";
  steps = number(g, "--steps", o.steps, "N", "step at which the run ends", 0, kMostCounted);
  epochs =
      number(g, "--epochs", o.epochs, "X", "instead of --steps: passes over the data", 1e-9, 1e9);
  epochs->default_str("");
  number(g, "--stop-after", o.stopAfter, "N",
         "save and stop at step N; schedules still run to --steps", 1, kMostCounted);
  for (int h = 0; h < program.hyper_count; ++h)
    if (const ShaleHyper &own = program.hyper[h];
        own.source == SHALE_HYPER_LEARNING_RATE && (own.fixed || own.value > 0))
      o.lr = own.value;
  CLI::Option *lr = number(g, "--lr", o.lr, "X", "learning rate", 0, 1e6);
  choice(g, "--schedule", o.schedule, "NAME", {"constant", "cosine", "linear", "wsd"},
         "constant, cosine, linear, wsd");
  number(g, "--warmup", o.warmup, "N", "steps of linear warm-up", 0, kMostCounted);
  number(g, "--min-lr", o.minLr, "X", "learning rate at the end of the schedule", 0, 1e6);
  number(g, "--decay-fraction", o.decayFraction, "X",
         "--schedule wsd: fraction of the steps over which the rate decays", 0, 1);
  addHyperFlags(g, lr);
  number(g, "--skip-spikes", o.skipSpikes, "FACTOR",
         "skip updates whose gradient norm is above FACTOR times its mean; 0: off", 0, 1e6);
  addForeignFlags();
  seed = number(g, "--seed", o.seed, "N",
                "seed of the order of the data, of dropout and of rounding", 0, kMostCounted);
}

/// Adds the hyper-parameters of the program's optimizer that are flags. `lr` is --lr.
void FlagParser::addHyperFlags(const char *g, CLI::Option *lr) {
  for (int h = 0; h < program.hyper_count; ++h)
    if (const ShaleHyper &own = program.hyper[h]; own.source == SHALE_HYPER_FLAG) {
      CLI::Option *option =
          number(g, ("--" + hyperFlag(own.name)).c_str(), o.hypers[own.name] = own.value, "X",
                 own.text, own.low, own.high, own.high_excluded);
      fixed.push_back({option, &own, &o.hypers[own.name]});
    } else if (own.source == SHALE_HYPER_LEARNING_RATE) {
      fixed.push_back({lr, &own, &o.lr});
    }
}

/// Adds the flags of other optimizers, which have no effect. They are not in --help.
void FlagParser::addForeignFlags() {
  for (int f = 0; f < program.foreign_flag_count; ++f)
    foreign.push_back(app.add_option(std::string("--") + program.foreign_flags[f])
                          ->group("")
                          ->expected(1)
                          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast));
}

void FlagParser::addOutputFlags() {
  const char *g = "Output";
  text(g, "--out", o.out, "DIR", "metrics, checkpoints, model.safetensors");
  number(g, "--save-every", o.saveEvery, "N", "checkpoint every N steps", 0, kMostCounted);
  app.add_flag("--save-on-failure", o.saveOnFailure,
               "also save if the run ends with an error that leaves the state intact")
      ->group(g);
  number(g, "--keep", o.keep, "N", "checkpoints kept; 0: all", 0, kMostCounted);
  choice(g, "--async-save", o.asyncSave, "WHEN", {"auto", "true", "false"},
         "save while training goes on: auto (if memory allows), true, false");
  choice(g, "--checkpoint", o.checkpoint, "FORM", {"sharded", "full", "both"},
         "sharded, full, both");
  text(g, "--file-size", fileSize, "SIZE",
       "largest weights file; a larger model.safetensors is split into files with an index");
  resume = text(g, "--resume", o.resume, "HOW", "auto, never, must, or a checkpoint's folder");
  choice(g, "--data-changed", o.dataChanged, "HOW", {"refuse", "accept"},
         "resume although the data files have changed: refuse, accept (rows are then read in "
         "another order)");
  app.add_flag("--tensorboard", o.tensorboard, "also write TensorBoard's event files to --out")
      ->group(g);
  text(g, "--prometheus", o.prometheus, "FILE",
       "also write the run's state to FILE (*.prom) for Prometheus' textfile collector");
  number(g, "--peak-tflops", o.peakTflops, "X",
         "peak TFLOP/s of a rank's device, for the model FLOPs utilization (mfu); 0: unknown", 0,
         1e9);
  app.add_option("--trace", trace, "steps:A-B FILE: Chrome trace of these steps")
      ->group(g)
      ->expected(1, 2) // one is refused below
      ->type_name("STEPS FILE");
}

void FlagParser::addRankFlags() {
  const char *g = "Ranks";
  number(g, "--nproc", o.nproc, "N",
         "ranks to start on this host; must equal the size of the mesh (the default)", 1, 1e6);
  number(g, "--max-restarts", o.maxRestarts, "N",
         "start all ranks again from the newest checkpoint after a crash or the loss of a rank, at "
         "most N times without a newer one, after pauses of up to a minute",
         0, 1e6);
  number(g, "--comm-timeout", o.commTimeout, "SECONDS", "longest wait for another rank", 0.001,
         1e7);
  number(g, "--check-replicas", o.checkReplicas, "N",
         "every N steps and before saves, compare what ranks must hold equally; 0: off", 0,
         kMostCounted);
  text(g, "--interface", o.interface, "NAME",
       "network interface between hosts, by name or address; default: the one towards MASTER_ADDR. "
       "Ranks on one host use no network");
  app.add_flag("--insecure", o.insecure,
               "several hosts without SHALE_TOKEN: trust everyone who can connect")
      ->group(g);
  text(g, "--report-buffers", o.reportBuffers, "FILE",
       "check the memory plan: write the buffers that the first two steps use, as JSON");
  if (program.device_code)
    addDeviceFlags(g);
  text(g, "--verify-checkpoint", o.verify, "DIR",
       "read a checkpoint, or all of a run, compare all checksums, and exit");
  app.add_flag("--describe", o.describe, "print ranks, parameters and the memory plan, and exit")
      ->group(g);
  app.add_flag("--help,-h", help, "print this help and exit")->group(g);
}

/// Adds the flags of programs for GPUs.
void FlagParser::addDeviceFlags(const char *g) {
  text(g, "--cuda-libraries", o.deviceLibraries, "DIR",
       "search this folder first for NVIDIA's libraries");
  choice(
      g, "--comm", o.comm, "HOW", {"nccl", "staged"},
      "collectives: nccl, between GPUs; staged, through host memory (ranks may then share a GPU)");
  choice(g, "--tune-matmuls", tuneMatmuls, "HOW", {"true", "false"},
         "time cuBLASLt's algorithms at the first start, and keep the choice beside the program; "
         "false: use the first algorithm that cuBLASLt proposes");
  text(
      g, "--report-device", o.reportDevice, "FILE",
      "write the allocated blocks of device memory, and the driver's count, as JSON at the end of the run");
  app.add_flag("--no-graph", noGraph, "do not replay the step as a CUDA graph")->group(g);
}

Parsed FlagParser::refuse(const std::string &message) {
  parsed.run = false;
  parsed.exitCode = SHALE_EXIT_USAGE;
  parsed.text = message;
  return parsed;
}

std::string FlagParser::checkExtra() {
  std::vector<std::string> extra = app.remaining();
  if (extra.empty())
    return "";
  std::string flag = extra.front().substr(0, extra.front().find('='));
  if (flag.empty() || flag[0] != '-')
    return "'" + flag + "' is not a flag; see --help";
  std::string answer = answerToFlag(flag, [&](const std::string &name) { return isOwn(name); });
  if (!answer.empty())
    return flag + " " + answer + ". See --help";
  std::string guess = nearest(app, flag);
  return "unknown flag '" + flag + "'" + (guess.empty() ? "." : "; did you mean --" + guess + "?") +
         " See --help";
}

std::string FlagParser::checkOptimization() {
  if (steps->count() > 0 && epochs->count() > 0)
    return "give --steps or --epochs, not both";
  if (std::string wrong = contradiction(fixed, o); !wrong.empty())
    return wrong;
  if (o.skipSpikes > 0 && o.skipSpikes < 1)
    return "--skip-spikes takes a factor of at least 1, or 0";
  bool hasLimit =
      std::any_of(program.hyper, program.hyper + program.hyper_count,
                  [](const ShaleHyper &own) { return own.source == SHALE_HYPER_NORM_LIMIT; });
  if (o.skipSpikes > 0 && !hasLimit)
    return "this program's step has no limit of the gradient norm; leave --skip-spikes out";
  return "";
}

std::string FlagParser::checkEvaluation() {
  if (o.evalEvery > 0 && o.evalData.empty())
    return "--eval-every needs --eval-data";
  if ((!o.evalData.empty() || o.evalOnly) && !program.evaluate)
    return "this program has no evaluation; leave --eval-data and "
           "--eval-only out";
  return "";
}

std::string FlagParser::checkResume() {
  std::string answer = exists(o.resume) ? "" : answerToForeignValue("resume", o.resume);
  if (!answer.empty())
    return "--resume: " + answer;
  // With --init, evaluate these weights, not those of an earlier run.
  if (o.evalOnly && !o.init.empty()) {
    if (resume->count() > 0 && o.resume != "never")
      return "--eval-only evaluates either --init or --resume, not both";
    o.resume = "never";
  }
  return "";
}

std::string FlagParser::checkEmpty() {
  // An empty value, as of a variable that is not set, must not mean that the flag was not given.
  for (const char *flag : {"--out", "--data", "--eval-data", "--init", "--resume",
                           "--verify-checkpoint", "--report-buffers"})
    if (const CLI::Option *given = app.get_option(flag);
        given->count() > 0 && given->results().back().empty())
      return std::string(flag) + " is empty; give a name, or leave the flag out";
  return "";
}

std::string FlagParser::readFileSize() {
  if (!parseBytes(fileSize, o.fileBytes))
    return "--file-size takes a number and B, KB, MB, GB, KiB, MiB or GiB, "
           "not '" +
           fileSize + "'";
  return "";
}

std::string FlagParser::readTrace() {
  if (!trace.empty()) {
    if (trace.size() != 2 || trace[1].empty() ||
        !parseTraceSteps(trace[0], o.traceFirst, o.traceLast))
      return "--trace takes steps and a file: --trace steps:10-12 FILE";
    o.traceFile = trace[1];
  }
  return "";
}

/// Records all values as text, and warns of flags without effect.
void FlagParser::recordValues() {
  for (const CLI::Option *option : foreign)
    if (option->count() > 0)
      o.warnings.push_back(
          format("--%s has no effect: the program was compiled with --optimizer %s",
                 option->get_lnames().front().c_str(), program.optimizer));
  if (o.evalOnly)
    evalBatches->default_str("all");
  for (const CLI::Option *option : app.get_options())
    o.values.push_back({"--" + option->get_lnames().front(),
                        option->count() > 0 ? CLI::detail::join(option->reduced_results(), " ")
                                            : option->get_default_str()});
}

Parsed FlagParser::run(int argc, const char *const *argv) {
  std::vector<std::string> args; // which CLI11 takes from the end
  for (int i = argc - 1; i > 0; --i)
    args.push_back(withPlainFlag(argv[i], [&](const std::string &name) { return isOwn(name); }));
  try {
    app.parse(args);
  } catch (const CLI::ParseError &error) {
    return refuse(std::string(error.what()) + "; see --help");
  }
  if (help) {
    parsed.run = false;
    parsed.text = helpText(app, program.model);
    return parsed;
  }
  o.graph = !noGraph;
  o.tuneMatmuls = tuneMatmuls == "true";
  o.shuffle = !noShuffle;
  o.seedGiven = seed->count() > 0;
  o.tokenDtypeGiven = tokenDtype->count() > 0;
  o.evalBatchesGiven = evalBatches->count() > 0;
  std::string wrong = checkExtra();
  for (auto check :
       {&FlagParser::checkOptimization, &FlagParser::checkEvaluation, &FlagParser::readFileSize,
        &FlagParser::checkResume, &FlagParser::checkEmpty, &FlagParser::readTrace})
    if (wrong.empty())
      wrong = (this->*check)();
  if (wrong.empty() && o.epochs == 0)
    wrong = checkSteps(o);
  if (!wrong.empty())
    return refuse(wrong);
  recordValues();
  return parsed;
}
} // namespace

std::string checkSteps(const Options &o) {
  if (o.warmup > o.steps && o.warmup > 0)
    return format("--warmup %lld is longer than the run's %lld steps", (long long)o.warmup,
                  (long long)o.steps);
  if (double from = decayStart(o); o.schedule == "wsd" && from + 1e-9 * o.steps < o.warmup)
    return format(
        "--schedule wsd decays from step %.9g of %lld (--decay-fraction %.9g), inside the "
        "warm-up of %lld steps: pass --warmup %lld or less, or --decay-fraction %.4g or less",
        from, (long long)o.steps, o.decayFraction, (long long)o.warmup, (long long)from,
        static_cast<double>(o.steps - o.warmup) / o.steps);
  if (!o.traceFile.empty() && o.traceLast >= o.end())
    return format("--trace: the run ends before step %lld", (long long)o.traceLast);
  return "";
}

Parsed parseOptions(const ShaleProgram &program, int argc, const char *const *argv) {
  return FlagParser(program).run(argc, argv);
}

} // namespace shale::rt
