// What a step has done.
#include "runtime/program/loop/StepOutcome.h"
#include "runtime/core/Files.h"
#include "runtime/data/Inputs.h"
#include "runtime/program/loop/LoadedProgram.h"
#include "runtime/program/loop/Norms.h"

#include <cmath>

namespace shale::rt {

StepOutcome outcomeOf(const RunSetup &setup, const FinishedStep &step, NormHistory &norms) {
  const ShaleProgram &program = setup.program;
  const Options &options = setup.options;
  auto metric = [&](const char *name, float missing) {
    int i = findName(program.metrics, program.metric_count, name);
    return i < 0 ? missing : step.metrics[i];
  };
  StepOutcome outcome;
  StepMetrics &m = outcome.metrics;
  m.step = step.step;
  m.seconds = step.seconds;
  m.loss = metric("loss", 0);
  m.gradNorm = metric("grad_norm", 0);
  m.lr = learningRate(options, step.step);
  m.tokens = program.tokens_per_step;
  if (Counted counted = countedOf(program); !counted.isTokens)
    m.samples = counted.perStep;
  m.memoryBytes = residentBytes();
  m.commBytes = step.commBytes;
  m.tflops = m.seconds > 0 ? program.flops_per_step / m.seconds * 1e-12 : 0;
  m.mfu = options.peakTflops > 0 ? m.tflops / options.peakTflops : 0;
  outcome.enabled = metric("enable", 1) != 0;
  bool finite = std::isfinite(m.loss) && std::isfinite(m.gradNorm);
  bool applied = outcome.enabled && finite;
  // The step itself halves a scale that is too large. With a scale this small, the
  // non-finite values have another cause.
  constexpr float smallestScale = 1.0f / 65536;
  m.scaled = findName(program.metrics, program.metric_count, "loss_scale") >= 0;
  m.lossScale = metric("loss_scale", 1);
  m.limited = options.skipSpikes > 0;
  m.normLimit = normLimit(norms, options.skipSpikes);
  bool isSpike = m.limited && finite && !outcome.enabled && m.gradNorm > m.normLimit;
  if (m.limited && finite)
    addNorm(norms, m.gradNorm, m.normLimit);
  m.skipped = (m.scaled && !applied) || isSpike;
  outcome.isSound = applied || isSpike;
  outcome.goesOn = outcome.isSound || (m.scaled && m.lossScale > smallestScale);
  return outcome;
}

} // namespace shale::rt
