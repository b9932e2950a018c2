// Evaluates the loss over data that is not used for training.
#include "runtime/core/Error.h"
#include "runtime/program/Training.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace shale::rt {

int findName(const char *const *names, int count, const char *name) {
  for (int i = 0; i < count; ++i)
    if (std::strcmp(names[i], name) == 0)
      return i;
  return -1;
}

/// Evaluates the first micro-batches of the file, the same ones every time; each row at
/// most once.
Evaluation Training::evaluate(int64_t most) {
  Evaluation result;
  result.batches = evalData->wholePass();
  if (most > 0)
    result.batches = std::min(result.batches, most);
  int s = findName(program.eval_metrics, program.eval_metric_count, "loss_sum");
  int c = findName(program.eval_metrics, program.eval_metric_count, "count");
  double sum = 0;
  for (int64_t b = 0; b < result.batches; ++b) {
    evalData->fillOnce(b, inputs[values->next()].data());
    values->push();
    call(program.evaluate);
    results->pull();
    auto *metrics = reinterpret_cast<const float *>(results->read());
    sum += s < 0 ? 0 : metrics[s];
    result.labels += c < 0 ? 0 : metrics[c];
  }
  result.loss = result.labels > 0 ? sum / result.labels : 0;
  return result;
}

/// --eval-only: prints a line for people and one for programs; writes no files.
int Training::evaluateOnly() {
  // Values that only training reads are 0.
  Evaluation result = evaluate(options.evalBatchesGiven ? options.evalBatches : 0);
  if (rendezvous.rank == 0) {
    double perplexity = std::exp(result.loss);
    printf("eval at step %lld | loss %.5f | perplexity %.4f | %lld labels in "
           "%lld micro-batches of %s\n",
           (long long)current, result.loss, perplexity, (long long)result.labels,
           (long long)result.batches, evalData->path().c_str());
    if (evalData->rowsLeftOut() > 0)
      printf("the last %lld rows fill no micro-batch and the model ignores no "
             "label: they were left out\n",
             (long long)evalData->rowsLeftOut());
    nlohmann::ordered_json object = {{"step", current},
                                     {"loss", result.loss},
                                     {"labels", (int64_t)result.labels},
                                     {"perplexity", perplexity},
                                     {"micro_batches", result.batches},
                                     {"data", evalData->path()}};
    printf("%s\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  connection.peers->barrier();
  return std::isfinite(result.loss) ? SHALE_EXIT_OK : SHALE_EXIT_NON_FINITE;
}

} // namespace shale::rt
