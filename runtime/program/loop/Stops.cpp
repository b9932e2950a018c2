// Ends of a run for a reason that is in its state: values that are not finite, replicas that
// differ.
#include "runtime/core/Error.h"
#include "runtime/core/StorageWait.h"
#include "runtime/data/Inputs.h"
#include "runtime/program/loop/Training.h"
#include "runtime/program/reports/Diagnosis.h"

#include <cmath>
#include <cstdio>

namespace shale::rt {

int Training::stopNonFinite() {
  device->finish(); // the steps in flight, which change nothing
  for (; inFlight > 0; --inFlight)
    results->read();
  StorageWait storage("the end of the run");
  finishSave();
  if (std::optional<int> code = checkReplicas())
    return *code;
  progress.clear();
  fflush(stdout);
  saveAfterFailure(finished.step, finished.firstRow);
  std::string cause = diagnose();
  report("stopped: the loss or the gradient norm was not finite");
  if (rendezvous.rank == 0)
    complain("error", format("step %lld: the loss or the gradient norm is "
                             "not finite; the update was not applied%s",
                             (long long)finished.step + 1, cause.c_str()));
  connection.peers->barrier();
  return SHALE_EXIT_NON_FINITE;
}

int Training::endUnchanged(bool ran) {
  auto metric = [&](const char *name) {
    int i = findName(program.metrics, program.metric_count, name);
    return i < 0 || lastMetrics.empty() ? 0.0f : lastMetrics[i];
  };
  std::string last;
  if (ran && !std::isfinite(metric("loss")))
    last = ", in the last step the loss itself, which no loss scale changes" + diagnose();
  else if (ran)
    last = format(", in the last step the gradients at loss scale %g; each such step halves the "
                  "scale, so that more steps may reach one that fits",
                  metric("loss_scale"));
  report("ended: every step was left out");
  if (rendezvous.rank == 0)
    complain("error", format("all %lld steps were left out, and no parameter has changed: the loss "
                             "or its gradients were not finite%s. bf16 and f32 have a wider range "
                             "than f16: compile with --param-dtype bf16 or f32",
                             (long long)current, last.c_str()));
  connection.peers->barrier();
  return SHALE_EXIT_NON_FINITE;
}

std::string Training::nameOfMemory(const void *at) const {
  auto *place = static_cast<const char *>(at);
  auto isIn = [&](const char *begin, int64_t bytes) {
    return begin && place >= begin && place < begin + bytes;
  };
  const char *blocks[] = {state->deviceData(), state->hostData()};
  const int64_t sizes[] = {program.state_bytes, program.host_state_bytes};
  for (int b = 0; b < 2; ++b)
    if (isIn(blocks[b], sizes[b])) {
      int64_t offset = place - blocks[b] + (b == 0 ? 0 : sizes[0]);
      std::string names;
      // A call may read a whole group.
      for (int32_t s = 0; s < program.state_count; ++s) {
        const ShaleState &one = program.states[s];
        int64_t bytes = one.local_count * sizeOf(static_cast<Dtype>(one.type));
        if (offset >= one.offset && offset < one.offset + bytes)
          names = nonFiniteIn(one);
      }
      return names;
    }
  for (int32_t i = 0; i < program.input_count; ++i) {
    const ShaleInput &input = program.inputs[i];
    int64_t bytes = elementsOf(input) * sizeOf(static_cast<Dtype>(input.type));
    if (isIn(static_cast<const char *>(inputsOfFunctions[i]), bytes) ||
        (!inputsOnHost.empty() && isIn(static_cast<const char *>(inputsOnHost[i]), bytes)))
      return format("input '%s'", input.name);
  }
  if (isIn(static_cast<const char *>(self.constants), program.constant_bytes))
    return "a constant of the model";
  return "";
}

/// Names the first parameter of a state that holds a value that is not finite.
std::string Training::nonFiniteIn(const ShaleState &one) const {
  for (const Piece &piece : localPieces(program, rendezvous.rank)) {
    int64_t bytes = one.local_count * sizeOf(static_cast<Dtype>(one.type));
    if (piece.offset < one.offset || piece.offset >= one.offset + bytes)
      continue;
    std::vector<char> data(piece.bytes());
    state->read(piece.offset, data.data(), piece.bytes());
    if (worstOf(data.data(), piece.end - piece.begin, static_cast<int32_t>(piece.type)) !=
        Badness::Finite)
      return format("parameter '%s' (%s)", program.parameters[piece.parameter].name,
                    roleName(program, piece.role));
  }
  return format("group '%s'", program.groups[one.group].name);
}

std::string Training::diagnose() {
  Diagnosis diagnosis(self, [this](const void *at) { return nameOfMemory(at); });
  callStep(finished.step, finished.firstRow, &diagnosis);
  self.observer = nullptr;
  results->pull();
  auto *metrics = reinterpret_cast<const float *>(results->read());
  std::string own;
  bool again = false;
  for (const char *name : {"loss", "grad_norm"})
    if (int i = findName(program.metrics, program.metric_count, name);
        i >= 0 && !std::isfinite(metrics[i])) {
      again = true;
      if (own.empty())
        own = diagnosis.finding(results->compiled() + i * sizeof(float));
    }
  std::vector<std::string> findings = connection.peers->gather(own);
  // A step that is not finite halves the loss scale, so its repetition is another one.
  if (!again && findName(program.metrics, program.metric_count, "loss_scale") < 0)
    return ". When the step was run again, both were finite: suspect the memory or device of a rank";
  std::string first = Diagnosis::choose(findings);
  return first.empty() ? "" : ". The first value that is not finite: " + first;
}

void Training::saveAfterFailure(int64_t step, int64_t row) {
  if (!options.saveOnFailure || !trains)
    return;
  try {
    prepareSave();
    if (savedStep == step)
      return;
    saveNow(positionAt(step, row), /*last=*/true);
    if (rendezvous.rank == 0)
      printf("saved the state before step %lld\n", (long long)step + 1);
    fflush(stdout);
  } catch (const Error &error) {
    if (error.code != SHALE_EXIT_IO)
      throw;
    warn("%s", error.what());
  }
}

bool Training::isReplicaCheckDue() const {
  return inFlight == 0 && options.checkReplicas > 0 && current % options.checkReplicas == 0;
}

std::optional<int> Training::checkReplicas() {
  if (!replicas || checkedStep == current || lastMetrics.empty())
    return std::nullopt;
  checkedStep = current;
  std::vector<std::string> sums =
      connection.peers->gather(replicas->checksums(*state, lastMetrics.data()));
  std::string difference = rendezvous.rank == 0 ? replicas->compare(sums) : "";
  if (!connection.peers->agree(!difference.empty()))
    return std::nullopt;
  finishSave(); // of an earlier step, which was compared
  progress.clear();
  fflush(stdout);
  report("stopped: ranks held different bits of what must be equal");
  if (rendezvous.rank == 0)
    complain("error",
             format("after step %lld, ranks hold different bits of what must be equal. %s. Nothing "
                    "was saved since; suspect the memory or device of a rank",
                    (long long)current, difference.c_str()));
  connection.peers->barrier();
  return SHALE_EXIT_REPLICAS;
}

} // namespace shale::rt
