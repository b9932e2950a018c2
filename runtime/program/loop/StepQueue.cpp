// Steps whose metrics were not read.
#include "runtime/program/loop/StepQueue.h"
#include "runtime/core/Profile.h"
#include "runtime/core/Trace.h"
#include "runtime/program/loop/Norms.h"

#include <algorithm>
#include <cmath>

namespace shale::rt {

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

StepQueue::StepQueue(const RunSetup &setup, LoadedProgram &loaded, Batches &data, int64_t firstRow)
    : setup(setup), program(setup.program), options(setup.options), loaded(loaded),
      self(loaded.rank()), data(data), nextRow(firstRow) {
  bool staged = options.comm == "staged" || !self.device->hasCollectives();
  hostTakesPart = staged && setup.rendezvous.worldSize > 1;
  // The limit of a step's norm follows from the norms of the steps before.
  ahead = loaded.passesEnable() && options.skipSpikes == 0 && self.device->runsAhead() &&
          !hostTakesPart;
  if (!options.reportBuffers.empty())
    watch.emplace(program, setup.rank(), loaded.blocks(), *self.device, *self.collectives);
}

void StepQueue::setHyper(int64_t step, const Position &position, float *hyper) const {
  // A skipped step does not count as an update, as with PyTorch's GradScaler. Those in flight are
  // applied, or the run ends.
  double before = static_cast<double>(position.updates) + static_cast<double>(inFlight);
  for (int h = 0; h < program.hyper_count; ++h) {
    const ShaleHyper &own = program.hyper[h];
    double base = own.base < 0 ? 0 : options.hypers.at(program.hyper[own.base].name);
    double value = own.source == SHALE_HYPER_LEARNING_RATE ? learningRate(options, step)
                   : own.source == SHALE_HYPER_OWN_RATE    ? ownRate(options, step, base)
                   : own.source == SHALE_HYPER_FLAG        ? options.hypers.at(own.name)
                   : own.source == SHALE_HYPER_NORM_LIMIT
                       ? normLimit(position.norms, options.skipSpikes)
                       : derived(own, base, before);
    hyper[h] = static_cast<float>(value);
  }
}

bool StepQueue::isObserved(int64_t step) const {
  bool traced =
      !options.traceFile.empty() && step >= options.traceFirst && step <= options.traceLast;
  return traced || tracing() || profiling() || (watch && !watch->done());
}

void StepQueue::enqueue(const Position &position, bool seeksLabels) {
  QueuedStep step;
  step.start = profileNow();
  step.step = position.step + inFlight;
  int64_t sentBefore = bytesSent(program, *self.collectives);
  double waitedBefore = self.waited;
  if (!options.traceFile.empty() && !tracing() && step.step >= options.traceFirst &&
      step.step <= options.traceLast) {
    setup.peers().barrier();
    traceStart();
  }
  step.firstRow = nextRow;
  step.labelled = !seeksLabels;
  callStep(step, position, watch && !watch->done() ? &*watch : nullptr);
  nextRow += program.accumulate * data.rows();
  loaded.pull();
  step.commBytes = bytesSent(program, *self.collectives) - sentBefore;
  step.waited = self.waited - waitedBefore;
  steps[inFlight++] = step;
}

void StepQueue::callStep(QueuedStep &step, const Position &position, Observer *observer) {
  for (int m = 0; m < program.accumulate; ++m) {
    LoadedProgram::Values values = loaded.next();
    setHyper(step.step, position, values.hyper);
    data.fill(step.step * program.accumulate + m, step.firstRow + m * data.rows(), values.inputs);
    data.fillRandom({options.seed, step.step, m}, values.inputs);
    step.labelled = step.labelled || data.hasLabels(values.inputs);
    bool last = m + 1 == program.accumulate;
    ShaleFunction function = last     ? program.step
                             : m == 0 ? program.accumulate_first
                                      : program.accumulate_next;
    if (observer)
      self.observer = observer;
    if (watch && observer == &*watch)
      watch->beginFunction(m == 0);
    loaded.call(function, /*follows=*/ahead && inFlight > 0);
  }
}

FinishedStep StepQueue::finish() {
  FinishedStep finished;
  finished.metrics = loaded.read();
  double end = profileNow();
  static_cast<QueuedStep &>(finished) = steps[0];
  steps[0] = steps[1];
  --inFlight;
  if (self.observer)
    watch->endStep();
  self.observer = nullptr;
  // The device may have begun the step when the one before it ended.
  finished.seconds = end - std::max(finished.start, lastEnd);
  lastEnd = end;
  if (tracing() && finished.step == options.traceLast)
    if (std::vector<std::string> texts = setup.peers().gather(traceText(setup.rank()));
        setup.isFirst())
      writeTrace(texts, options.traceFile);
  return finished;
}

void StepQueue::drop() {
  self.device->finish();
  for (; inFlight > 0; --inFlight)
    loaded.read();
}

void StepQueue::repeat(QueuedStep step, const Position &position, Observer &observer) {
  step.labelled = true; // the labels were looked at
  callStep(step, position, &observer);
  self.observer = nullptr;
  loaded.pull();
}

} // namespace shale::rt
