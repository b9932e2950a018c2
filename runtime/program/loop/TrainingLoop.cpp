// The loop over steps, and its ends.
#include "runtime/program/loop/TrainingLoop.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/StorageWait.h"
#include "runtime/data/Inputs.h"
#include "runtime/program/launch/RunId.h"
#include "runtime/program/launch/Signals.h"
#include "runtime/program/loop/StepOutcome.h"
#include "runtime/program/reports/Describe.h"
#include "runtime/program/reports/Diagnosis.h"

#include <cmath>
#include <cstdio>

namespace shale::rt {

TrainingLoop::TrainingLoop(const RunSetup &setup, LoadedProgram &loaded, RunData &data,
                           RunLogs &logs, CheckpointSaver &saver, const Position &position)
    : setup(setup), program(setup.program), options(setup.options), loaded(loaded), data(data),
      logs(logs), saver(saver), position(position),
      queue(setup, loaded, data.training(), position.row) {
  if (Batches *batches = data.evaluation())
    evaluator.emplace(setup, loaded, *batches);
  if (options.checkReplicas > 0 && setup.rendezvous.worldSize > 1)
    replicas.emplace(program, setup.rank());
}

std::optional<int> TrainingLoop::train() {
  auto due = [&](int64_t every) {
    return queue.size() == 0 && every > 0 && position.step % every == 0;
  };
  while (position.step + queue.size() < options.end()) {
    if (!step())
      return stopNonFinite();
    if (int code = requested)
      return settle(0) ? stopRequested(code) : stopNonFinite();
    if (due(options.checkReplicas))
      if (std::optional<int> differ = checkReplicas())
        return differ;
    if (due(options.saveEvery) && position.step < options.end())
      if (std::optional<int> differ = checkAndSave(false))
        return differ;
  }
  return std::nullopt;
}

bool TrainingLoop::isLookedAt(int64_t step) const {
  auto due = [&](int64_t every) { return every > 0 && (step + 1) % every == 0; };
  return step + 1 == options.end() || due(options.saveEvery) || due(options.checkReplicas) ||
         (evaluator && due(options.evalEvery));
}

bool TrainingLoop::step() {
  int64_t next = position.step + queue.size();
  bool observed = queue.isObserved(next);
  if (observed && !settle(0))
    return false;
  try {
    queue.enqueue(position, /*seeksLabels=*/!logs.toldUnlabelled());
  } catch (const Error &) {
    // An error in the data of this step comes after the lines of the steps before it.
    if (!settle(0))
      return false;
    throw;
  }
  return settle(queue.runsAhead() && !observed && !isLookedAt(next) ? 1 : 0);
}

bool TrainingLoop::settle(int64_t most) {
  while (queue.size() > most)
    if (!finishStep())
      return false;
  return true;
}

bool TrainingLoop::finishStep() {
  finished = queue.finish();
  lastMetrics.assign(finished.metrics, finished.metrics + program.metric_count);
  StepOutcome outcome = outcomeOf(setup, finished, position.norms);
  // An evaluation below overwrites what the step returned, but not its copy.
  outcome.metrics.names = program.metrics;
  outcome.metrics.values = lastMetrics.data();
  outcome.metrics.valueCount = program.metric_count;
  ++position.step;
  position.row = finished.firstRow + program.accumulate * data.training().rows();
  noteUnsavedStep();
  position.updates += outcome.enabled;
  bool due = options.evalEvery > 0 && position.step % options.evalEvery == 0;
  if (outcome.isSound && evaluator && (due || position.step == options.end())) {
    outcome.metrics.evaluated = true;
    outcome.metrics.evalLoss = evaluator->evaluate(options.evalBatches).loss;
  }
  endWithPeers(outcome.metrics);
  logs.record(outcome.metrics, finished.labelled);
  return outcome.goesOn;
}

void TrainingLoop::endWithPeers(StepMetrics &m) {
  Peers &peers = setup.peers();
  try {
    int code = requestedExit();
    double own = m.seconds - finished.waited;
    requested =
        static_cast<int>(queue.waitsForPeers() ? peers.agreeAndTell(code, own, rankTimes.seconds)
                                               : peers.agree(code));
  } catch (const Error &) {
    logs.record(m, finished.labelled);
    // A rank that hangs before a collective of a step in flight does not come here.
    setup.connection.collectives->awaitDiagnosis();
    throw;
  }
  rankTimes.add(m);
}

int TrainingLoop::stopRequested(int code) {
  logs.progress().clear();
  StorageWait storage("the end of the run");
  if (std::optional<int> differ = checkAndSave(true))
    return *differ;
  report("stopped by a signal");
  if (setup.isFirst())
    printf("stopped by a signal after step %lld/%lld; the state is saved\n",
           (long long)position.step, (long long)options.steps);
  setup.peers().barrier();
  return code;
}

int TrainingLoop::stopNonFinite() {
  queue.drop(); // the steps in flight, which change nothing
  StorageWait storage("the end of the run");
  saver.finish();
  if (std::optional<int> code = checkReplicas())
    return *code;
  logs.progress().clear();
  fflush(stdout);
  saver.saveAfterFailure(positionAt(finished.step, finished.firstRow));
  std::string cause = diagnose();
  report("stopped: the loss or the gradient norm was not finite");
  if (setup.isFirst())
    complain("error", format("step %lld: the loss or the gradient norm is "
                             "not finite; the update was not applied%s",
                             (long long)finished.step + 1, cause.c_str()));
  setup.peers().barrier();
  return SHALE_EXIT_NON_FINITE;
}

bool TrainingLoop::isUnchanged() const {
  // A run that --stop-after ends may still find a loss scale that fits.
  return position.step > 0 && position.step >= options.steps && position.updates == 0;
}

int TrainingLoop::endUnchanged() {
  bool ran = !lastMetrics.empty(); // whether this process ran the last step
  auto metric = [&](const char *name) {
    int i = findName(program.metrics, program.metric_count, name);
    return i < 0 || !ran ? 0.0f : lastMetrics[i];
  };
  std::string last;
  if (ran && !std::isfinite(metric("loss")))
    last = ", in the last step the loss itself, which no loss scale changes" + diagnose();
  else if (ran)
    last = format(", in the last step the gradients at loss scale %g; each such step halves the "
                  "scale, so that more steps may reach one that fits",
                  metric("loss_scale"));
  report("ended: every step was left out");
  if (setup.isFirst())
    complain("error", format("all %lld steps were left out, and no parameter has changed: the loss "
                             "or its gradients were not finite%s. bf16 and f32 have a wider range "
                             "than f16: compile with --param-dtype bf16 or f32",
                             (long long)position.step, last.c_str()));
  setup.peers().barrier();
  return SHALE_EXIT_NON_FINITE;
}

std::string TrainingLoop::diagnose() {
  Diagnosis diagnosis(loaded.rank(), [this](const void *at) { return loaded.nameOf(at); });
  queue.repeat(finished, position, diagnosis);
  const float *metrics = loaded.read();
  std::string own;
  bool again = false;
  for (const char *name : {"loss", "grad_norm"})
    if (int i = findName(program.metrics, program.metric_count, name);
        i >= 0 && !std::isfinite(metrics[i])) {
      again = true;
      if (own.empty())
        own = diagnosis.finding(loaded.resultAt(i));
    }
  std::vector<std::string> findings = setup.peers().gather(own);
  // A step that is not finite halves the loss scale, so its repetition is another one.
  if (!again && findName(program.metrics, program.metric_count, "loss_scale") < 0)
    return ". When the step was run again, both were finite: suspect the memory or device of a rank";
  std::string first = Diagnosis::choose(findings);
  return first.empty() ? "" : ". The first value that is not finite: " + first;
}

std::optional<int> TrainingLoop::checkReplicas() {
  if (!replicas || checkedStep == position.step || lastMetrics.empty())
    return std::nullopt;
  checkedStep = position.step;
  Peers &peers = setup.peers();
  std::vector<std::string> sums =
      peers.gather(replicas->checksums(loaded.state(), lastMetrics.data()));
  std::string difference = setup.isFirst() ? replicas->compare(sums) : "";
  if (!peers.agree(!difference.empty()))
    return std::nullopt;
  saver.finish(); // of an earlier step, which was compared
  logs.progress().clear();
  fflush(stdout);
  report("stopped: ranks held different bits of what must be equal");
  if (setup.isFirst())
    complain("error",
             format("after step %lld, ranks hold different bits of what must be equal. %s. Nothing "
                    "was saved since; suspect the memory or device of a rank",
                    (long long)position.step, difference.c_str()));
  peers.barrier();
  return SHALE_EXIT_REPLICAS;
}

std::optional<int> TrainingLoop::checkAndSave(bool last) {
  if (std::optional<int> code = checkReplicas())
    return code;
  saver.save(positionAt(position.step, position.row), last);
  return std::nullopt;
}

void TrainingLoop::saveAfterError() {
  if (setup.rendezvous.worldSize == 1 && queue.size() == 0)
    saver.saveAfterFailure(positionAt(position.step, position.row));
}

Position TrainingLoop::positionAt(int64_t step, int64_t row) const {
  Position at = position;
  at.step = step;
  at.row = row;
  at.seed = options.seed;
  at.flags = runFlags(options);
  at.data = data.files();
  at.run = runId();
  return at;
}

void TrainingLoop::report(const char *end) {
  if (!setup.isFirst())
    return;
  ReportFacts facts;
  Counted counted = countedOf(program);
  facts.title = baseName(program.model);
  facts.rows = {{"end", format("%s, at step %lld of %lld", end, (long long)position.step,
                               (long long)options.steps)},
                {"ranks", format("%d, mesh %s, shard %s", setup.rendezvous.worldSize,
                                 meshText(program).c_str(), program.strategy)},
                {"optimizer", program.optimizer},
                {"data", options.data},
                {std::string(counted.unit()) + " per step", std::to_string(counted.perStep)}};
  facts.unit = counted.unit();
  if (program.tokens_per_step > 0)
    facts.unitsPerToken = double(counted.perStep) / double(program.tokens_per_step);
  if (std::string text = saver.describe(); !text.empty())
    facts.rows.emplace_back("saves", text);
  if (std::string text = slowestRank(); !text.empty())
    facts.rows.emplace_back("slowest rank", text);
  if (options.skipSpikes > 0)
    facts.rows.emplace_back("updates left out as spikes", std::to_string(position.norms.skipped));
  logs.report(facts);
}

void TrainingLoop::tellSaves() const {
  if (!setup.isFirst())
    return;
  if (std::string text = saver.describe(); !text.empty())
    printf("saves: %s\n", text.c_str());
  if (position.norms.skipped > 0)
    printf("spikes: %lld of %lld updates were left out\n", (long long)position.norms.skipped,
           (long long)position.step);
}

std::string TrainingLoop::slowestRank() const {
  return rankTimes.summary([&](int rank) { return setup.peers().nameOf(rank); });
}

} // namespace shale::rt
