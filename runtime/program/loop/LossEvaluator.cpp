// Evaluates the loss over data that is not used for training.
#include "runtime/program/loop/LossEvaluator.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace shale::rt {

bool LossEvaluator::Measured::operator==(const Measured &other) const {
  return std::memcmp(&sum, &other.sum, sizeof(sum)) == 0 &&
         std::memcmp(&count, &other.count, sizeof(count)) == 0;
}

LossEvaluator::Measured LossEvaluator::measure() {
  const ShaleProgram &program = setup.program;
  int s = findName(program.eval_metrics, program.eval_metric_count, "loss_sum");
  int c = findName(program.eval_metrics, program.eval_metric_count, "count");
  loaded.call(program.evaluate);
  loaded.pull();
  const float *metrics = loaded.read();
  return {s < 0 ? 0 : metrics[s], c < 0 ? 0 : metrics[c]};
}

/// Rows without labels may count: in an auxiliary loss, in a mean over all rows, or since they
/// compete with other rows (experts of a fixed capacity). They do not if it makes no difference
/// what they hold, and if a micro-batch of such rows alone gives a sum and a count of 0.
bool LossEvaluator::isFilledExactly(int64_t last, const Measured &measured) {
  data.fillOnce(last, loaded.next().inputs, Batches::Filler::Zeros);
  bool isSame = measure() == measured;
  data.fillUnlabelled(last, loaded.next().inputs);
  Measured alone = measure();
  return setup.peers().agree(!isSame || alone.sum != 0 || alone.count != 0) == 0;
}

Evaluation LossEvaluator::evaluate(int64_t most) {
  Evaluation result;
  int64_t all = data.wholePass(), batches = most > 0 ? std::min(all, most) : all;
  double sum = 0;
  for (int64_t b = 0; b < batches; ++b) {
    data.fillOnce(b, loaded.next().inputs);
    Measured measured = measure();
    int64_t rows = b + 1 == all ? data.rowsInFilled() : 0;
    if (rows > 0 && !isFilledExactly(b, measured)) {
      result.leftOut = rows;
      break;
    }
    sum += measured.sum;
    result.labels += measured.count;
    ++result.batches;
  }
  if (result.leftOut > 0 && result.batches == 0 && !setup.isFirst())
    throw Error(SHALE_EXIT_DATA, ""); // rank 0 reports it
  if (result.leftOut > 0 && result.batches == 0)
    fail(SHALE_EXIT_DATA,
         "'%s' has %lld rows, fewer than the %lld of one micro-batch, and the model's loss depends "
         "on rows without labels, so that others cannot fill it: give more data, or compile for a "
         "smaller batch",
         data.path().c_str(), (long long)result.leftOut, (long long)data.rows());
  result.loss = result.labels > 0 ? sum / result.labels : 0;
  if (result.leftOut > 0 && !std::exchange(toldLeftOut, true) && setup.isFirst())
    warn("evaluation: the last %lld rows of '%s' fill no micro-batch, and the model's loss depends "
         "on rows without labels: they were left out",
         (long long)result.leftOut, data.path().c_str());
  return result;
}

int LossEvaluator::report(int64_t step) {
  const Options &options = setup.options;
  // Values that only training reads are 0.
  Evaluation result = evaluate(options.evalBatchesGiven ? options.evalBatches : 0);
  if (setup.isFirst()) {
    double perplexity = std::exp(result.loss);
    printf("eval at step %lld | loss %.5f | perplexity %.4f | %lld labels in "
           "%lld micro-batches of %s\n",
           (long long)step, result.loss, perplexity, (long long)result.labels,
           (long long)result.batches, data.path().c_str());
    if (data.rowsLeftOut() > 0)
      printf("the last %lld rows fill no micro-batch and the model ignores no "
             "label: they were left out\n",
             (long long)data.rowsLeftOut());
    nlohmann::ordered_json object = {{"step", step},
                                     {"loss", result.loss},
                                     {"labels", (int64_t)result.labels},
                                     {"perplexity", perplexity},
                                     {"micro_batches", result.batches},
                                     {"data", data.path()}};
    printf("%s\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  setup.peers().barrier();
  return std::isfinite(result.loss) ? SHALE_EXIT_OK : SHALE_EXIT_NON_FINITE;
}

} // namespace shale::rt
