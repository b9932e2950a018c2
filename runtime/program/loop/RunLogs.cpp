// What a run writes about its steps.
#include "runtime/program/loop/RunLogs.h"
#include "runtime/checkpoint/Kept.h"
#include "runtime/core/Error.h"
#include "runtime/core/Profile.h"
#include "runtime/program/flags/Check.h"

#include <utility>

namespace shale::rt {

RunLogs::RunLogs(const RunSetup &setup) : setup(setup), options(setup.options) {
  if (!setup.isFirst() || options.evalOnly)
    return;
  folder.emplace(options);
  if (!options.prometheus.empty())
    prometheus.emplace(options.prometheus, options.out, options.steps);
}

void RunLogs::open(int64_t step) {
  next = step;
  if (!setup.isFirst())
    return;
  log.emplace(options.out + "/metrics.jsonl", step);
  if (options.tensorboard)
    board.emplace(options.out, step);
}

void RunLogs::keepFolder() {
  if (!folder || folder->isThere())
    return;
  lostFolder = true;
  folder.reset();
  log.reset();
  board.reset();
  try {
    folder.emplace(options);
    open(next);
    if (!options.init.empty())
      storeKept(setup.program, initOptions(options), options.out);
  } catch (const Error &error) {
    fail(SHALE_EXIT_IO, "'%s' was removed during the run, and cannot be made again: %s",
         options.out.c_str(), error.what());
  }
  warn("'%s' or the lock in it was removed during the run, which goes on in a new folder of that "
       "name: earlier metrics and checkpoints may be lost",
       options.out.c_str());
}

void RunLogs::record(const StepMetrics &m, bool labelled) {
  if (!setup.isFirst())
    return;
  next = m.step + 1;
  keepFolder();
  log->record(m);
  if (board)
    board->record(m);
  if (prometheus)
    prometheus->record(m, profileNow());
  // The ranks' mean loss is 0, so no other rank has labels either.
  bool isUnlabelled = !unlabelled && !labelled && m.loss == 0 && m.gradNorm == 0;
  unlabelled = unlabelled || isUnlabelled;
  print(m, isUnlabelled);
}

void RunLogs::print(const StepMetrics &m, bool isUnlabelled) {
  if (m.skipped || m.evaluated)
    bar.clear();
  bar.step(m, options.steps, profileNow());
  if (m.skipped || m.evaluated)
    bar.clear();
  if (m.skipped && m.gradNorm > m.normLimit)
    printf("step %lld skipped: its gradient norm %.4f is above the limit %.4f\n",
           (long long)m.step + 1, m.gradNorm, m.normLimit);
  else if (m.skipped)
    printf("step %lld skipped: gradients are not finite at loss scale %g\n", (long long)m.step + 1,
           m.lossScale);
  if (isUnlabelled) {
    bar.clear();
    fflush(stdout);
    warn("step %lld: every label is ignored, so its loss and its gradients are 0; later steps of "
         "this kind are not reported. Check the labels in '%s'",
         (long long)m.step + 1, options.data.c_str());
  }
  if (m.evaluated)
    printf("eval %lld | loss %.5f\n", (long long)m.step + 1, m.evalLoss);
  fflush(stdout);
}

bool RunLogs::sync() {
  keepFolder();
  if (log)
    log->sync();
  return std::exchange(lostFolder, false);
}

void RunLogs::report(const ReportFacts &facts) {
  if (!setup.isFirst())
    return;
  log->finish();
  if (board)
    board->finish();
  try {
    writeReport(options.out + "/metrics.jsonl", options.out + "/report.html", facts);
  } catch (const Error &error) {
    warn("%s", error.what()); // not a reason for the run to fail
  }
}

void RunLogs::finishPrometheus() {
  if (prometheus)
    prometheus->finish();
}

} // namespace shale::rt
