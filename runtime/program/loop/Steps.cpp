// The loop over steps.
//
// If the device works on its own and the program allows it, the process enqueues a step before it
// reads the metrics of the step before: `flights` are the steps whose metrics were not read. It
// finishes all of them before it looks at the state or observes a step, so that files and printed
// lines are those of a process that waits for each step. A step that starts while the one before it
// is in flight gets that step's metric `enable` as a setting, by a copy on the device: after an
// update that was not applied, the steps in flight apply none.
#include "runtime/core/Error.h"
#include "runtime/core/Profile.h"
#include "runtime/core/StorageWait.h"
#include "runtime/core/Trace.h"
#include "runtime/program/launch/Signals.h"
#include "runtime/program/loop/Norms.h"
#include "runtime/program/loop/Training.h"

#include <chrono>
#include <cmath>

namespace shale::rt {

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the value of a hyper-parameter after `updates` updates. `base` is the value of the one
/// that it is computed from.
static double derived(const ShaleHyper &own, double base, double updates) {
  double t = static_cast<double>(own.first) + static_cast<double>(own.step) * updates;
  switch (own.source) {
  case SHALE_HYPER_BIAS_CORRECTION:
    return t > 0 ? 1 - std::pow(base, t) : 1;
  case SHALE_HYPER_STEP_POWER:
    return std::pow(t, own.base < 0 ? own.value : base);
  case SHALE_HYPER_INVERSE_DECAY:
    return 1 / (1 + t * base);
  case SHALE_HYPER_AFTER_FIRST:
    return t > 0 ? base : 1;
  default: // the metric of the step before
    return 1;
  }
}

void Training::setHyper(int64_t step, int slot) {
  // A skipped step does not count as an update, as with PyTorch's GradScaler. Those in flight are
  // applied, or the run ends.
  double before = static_cast<double>(updates) + static_cast<double>(inFlight);
  auto *hyper = reinterpret_cast<float *>(values->at(slot) + hyperOffset);
  for (int h = 0; h < program.hyper_count; ++h) {
    const ShaleHyper &own = program.hyper[h];
    double base = own.base < 0 ? 0 : options.hypers.at(program.hyper[own.base].name);
    double value = own.source == SHALE_HYPER_LEARNING_RATE ? learningRate(options, step)
                   : own.source == SHALE_HYPER_OWN_RATE    ? ownRate(options, step, base)
                   : own.source == SHALE_HYPER_FLAG        ? options.hypers.at(own.name)
                   : own.source == SHALE_HYPER_NORM_LIMIT  ? normLimit(norms, options.skipSpikes)
                                                           : derived(own, base, before);
    hyper[h] = static_cast<float>(value);
  }
}

bool Training::isObserved() const {
  int64_t next = current + static_cast<int64_t>(inFlight);
  bool traced =
      !options.traceFile.empty() && next >= options.traceFirst && next <= options.traceLast;
  return traced || tracing() || profiling() || (watch && !watch->done());
}

bool Training::isLookedAt(int64_t step) const {
  auto due = [&](int64_t every) { return every > 0 && (step + 1) % every == 0; };
  return step + 1 == options.end() || due(options.saveEvery) || due(options.checkReplicas) ||
         (evalData && due(options.evalEvery));
}

bool Training::step() {
  bool observed = isObserved();
  if (observed && !settle(0))
    return false;
  try {
    enqueue();
  } catch (const Error &) {
    // An error in the data of this step comes after the lines of the steps before it.
    if (!settle(0))
      return false;
    throw;
  }
  const Flight &last = flights[inFlight - 1];
  return settle(ahead && !observed && !isLookedAt(last.step) ? 1 : 0);
}

/// Enqueues the calls of the next step.
void Training::enqueue() {
  Flight flight;
  flight.start = now();
  flight.step = current + static_cast<int64_t>(inFlight);
  int64_t sentBefore = bytesSent(program, *connection.collectives);
  double waitedBefore = self.waited;
  if (!options.traceFile.empty() && !tracing() && flight.step >= options.traceFirst &&
      flight.step <= options.traceLast) {
    connection.peers->barrier();
    traceStart();
  }
  flight.firstRow = firstRow;
  flight.labelled = callStep(flight.step, firstRow, watch && !watch->done() ? &*watch : nullptr);
  firstRow += program.accumulate * data->rows();
  results->pull();
  flight.commBytes = bytesSent(program, *connection.collectives) - sentBefore;
  flight.waited = self.waited - waitedBefore;
  flights[inFlight++] = flight;
}

/// Enqueues the calls of a step whose rows begin with `row`.
bool Training::callStep(int64_t step, int64_t row, Observer *observer) {
  int enable = findName(program.metrics, program.metric_count, "enable");
  bool labelled = false;
  for (int m = 0; m < program.accumulate; ++m) {
    int slot = values->next();
    setHyper(step, slot);
    data->fill(step * program.accumulate + m, row + m * data->rows(), inputs[slot].data());
    data->fillRandom({options.seed, step, m}, inputs[slot].data());
    labelled = labelled || toldUnlabelled || data->hasLabels(inputs[slot].data());
    bool last = m + 1 == program.accumulate;
    ShaleFunction function = last     ? program.step
                             : m == 0 ? program.accumulate_first
                                      : program.accumulate_next;
    if (observer)
      self.observer = observer;
    if (observer && observer == (watch ? &*watch : nullptr))
      watch->beginFunction(m == 0);
    bool follows = ahead && inFlight > 0;
    values->push(follows ? results->compiled() + enable * sizeof(float) : nullptr,
                 hyperOffset + previousEnable * int64_t(sizeof(float)));
    call(function);
  }
  return labelled;
}

bool Training::settle(size_t most) {
  while (inFlight > most)
    if (!finishStep())
      return false;
  return true;
}

/// Waits for the step that was enqueued first and reports it.
bool Training::finishStep() {
  StepMetrics m;
  auto *metrics = reinterpret_cast<const float *>(results->read());
  double end = now();
  Flight flight = flights[0];
  flights[0] = flights[1];
  --inFlight;
  if (self.observer)
    watch->endStep();
  self.observer = nullptr;
  // The device may have begun the step when the one before it ended.
  m.seconds = end - std::max(flight.start, lastEnd);
  lastEnd = end;
  if (tracing() && flight.step == options.traceLast)
    if (std::vector<std::string> texts = connection.peers->gather(traceText(rendezvous.rank));
        rendezvous.rank == 0)
      writeTrace(texts, options.traceFile);
  lastMetrics.assign(metrics, metrics + program.metric_count);
  auto metric = [&](const char *name, float missing) {
    int i = findName(program.metrics, program.metric_count, name);
    return i < 0 ? missing : metrics[i];
  };
  m.step = flight.step;
  m.loss = metric("loss", 0);
  m.gradNorm = metric("grad_norm", 0);
  m.lr = learningRate(options, flight.step);
  m.tokens = program.tokens_per_step;
  m.samples = samplesPerStep;
  m.memoryBytes = residentBytes();
  m.commBytes = flight.commBytes;
  m.tflops = m.seconds > 0 ? program.flops_per_step / m.seconds * 1e-12 : 0;
  m.mfu = options.peakTflops > 0 ? m.tflops / options.peakTflops : 0;
  bool enabled = metric("enable", 1) != 0;
  bool finite = std::isfinite(m.loss) && std::isfinite(m.gradNorm);
  bool applied = enabled && finite;
  // The step itself halves a scale that is too large. With a scale this small, the
  // non-finite values have another cause.
  constexpr float smallestScale = 1.0f / 65536;
  m.scaled = findName(program.metrics, program.metric_count, "loss_scale") >= 0;
  m.lossScale = metric("loss_scale", 1);
  m.limited = options.skipSpikes > 0;
  m.normLimit = normLimit(norms, options.skipSpikes);
  bool isSpike = m.limited && finite && !enabled && m.gradNorm > m.normLimit;
  if (m.limited && finite)
    addNorm(norms, m.gradNorm, m.normLimit);
  m.skipped = (m.scaled && !applied) || isSpike;
  bool goesOn = applied || isSpike || (m.scaled && m.lossScale > smallestScale);
  finished = flight;
  ++current;
  currentRow = flight.firstRow + program.accumulate * data->rows();
  noteUnsavedStep();
  updates += enabled;
  bool due = options.evalEvery > 0 && current % options.evalEvery == 0;
  if ((applied || isSpike) && evalData && (due || current == options.end())) {
    m.evaluated = true;
    m.evalLoss = evaluate(options.evalBatches).loss;
  }
  endWithPeers(m, flight.waited);
  record(m);
  return goesOn;
}

void Training::endWithPeers(StepMetrics &m, double waited) {
  try {
    int code = requestedExit();
    double own = m.seconds - waited;
    requested =
        static_cast<int>(timesRanks ? connection.peers->agreeAndTell(code, own, rankTimes.seconds)
                                    : connection.peers->agree(code));
  } catch (const Error &) {
    record(m);
    // A rank that hangs before a collective of a step in flight does not come here.
    connection.collectives->awaitDiagnosis();
    throw;
  }
  rankTimes.add(m);
}

void Training::record(StepMetrics &m) {
  if (rendezvous.rank != 0)
    return;
  keepFolder();
  log->record(m);
  if (board)
    board->record(m);
  if (prometheus)
    prometheus->record(m, now());
  if (m.skipped || m.evaluated)
    progress.clear();
  progress.step(m, options.steps, now());
  if (m.skipped || m.evaluated)
    progress.clear();
  if (m.skipped && m.gradNorm > m.normLimit)
    printf("step %lld skipped: its gradient norm %.4f is above the limit %.4f\n",
           (long long)m.step + 1, m.gradNorm, m.normLimit);
  else if (m.skipped)
    printf("step %lld skipped: gradients are not finite at loss scale %g\n", (long long)m.step + 1,
           m.lossScale);
  // The ranks' mean loss is 0, so no other rank has labels either.
  if (!toldUnlabelled && !finished.labelled && m.loss == 0 && m.gradNorm == 0) {
    toldUnlabelled = true;
    progress.clear();
    fflush(stdout);
    warn("step %lld: every label is ignored, so its loss and its gradients are 0; later steps of "
         "this kind are not reported. Check the labels in '%s'",
         (long long)m.step + 1, data->path().c_str());
  }
  if (m.evaluated)
    printf("eval %lld | loss %.5f\n", (long long)current, m.evalLoss);
  fflush(stdout);
}

std::optional<int> Training::train() {
  trains = true;
  while (current + static_cast<int64_t>(inFlight) < options.end()) {
    if (!step())
      return stopNonFinite();
    if (int code = requested) {
      if (!settle(0))
        return stopNonFinite();
      progress.clear();
      StorageWait storage("the end of the run");
      if (std::optional<int> differ = checkAndSave(true))
        return differ;
      report("stopped by a signal");
      if (rendezvous.rank == 0)
        printf("stopped by a signal after step %lld/%lld; the state is saved\n", (long long)current,
               (long long)options.steps);
      connection.peers->barrier();
      return code;
    }
    if (isReplicaCheckDue())
      if (std::optional<int> differ = checkReplicas())
        return differ;
    if (inFlight == 0 && options.saveEvery > 0 && current % options.saveEvery == 0 &&
        current < options.end())
      if (std::optional<int> differ = checkAndSave(false))
        return differ;
  }
  return std::nullopt;
}

} // namespace shale::rt
