// The data of a run.
#include "runtime/program/loop/RunData.h"
#include "runtime/core/Error.h"
#include "runtime/program/flags/Check.h"

namespace shale::rt {

RunData::RunData(const RunSetup &setup, const Position &position) : setup(setup) {
  const Options &options = setup.options;
  if (!options.evalOnly) {
    ofTraining.emplace(setup.program, setup.rank(), dataOptions(options, false));
    needMicroBatches(*ofTraining, options, setup.program.accumulate);
    compareWithCheckpoint(position);
  }
  if (options.evalOnly || !options.evalData.empty())
    ofEvaluation.emplace(setup.program, setup.rank(), dataOptions(options, true));
  introduce();
}

void RunData::compareWithCheckpoint(const Position &position) {
  DataChange change;
  if (setup.isFirst()) {
    trainingFiles = ofTraining->files();
    if (!position.data.empty())
      change = compareData(position.data, trainingFiles);
    if (!change.renamed.empty())
      warn("the data has other names than at the checkpoint: %s", change.renamed.c_str());
  }
  bool accepts = setup.options.dataChanged == "accept";
  if (accepts && !change.other.empty())
    warn("the data is not that of the checkpoint: %s; the run goes on with row %lld of its order",
         change.other.c_str(), (long long)position.row);
  if (setup.peers().agree(!accepts && !change.other.empty()) == 0)
    return;
  if (setup.isFirst())
    fail(
        SHALE_EXIT_DATA,
        "the data is not that of the checkpoint: %s. The rest of the run would read rows in another "
        "order, and some of them twice or never. Restore the files, or pass --data-changed accept",
        change.other.c_str());
  throw Error(SHALE_EXIT_DATA, ""); // rank 0 reports it
}

void RunData::introduce() const {
  if (!setup.isFirst())
    return;
  if (std::string text = ofTraining ? ofTraining->describe() : ""; !text.empty())
    printf("data: %s; one pass is %.4g steps, the run has %lld\n", text.c_str(),
           ofTraining->stepsInPass(setup.program.accumulate), (long long)setup.options.steps);
  if (std::string text = ofEvaluation ? ofEvaluation->describe() : ""; !text.empty())
    printf("evaluation data: %s\n", text.c_str());
  fflush(stdout);
}

} // namespace shale::rt
