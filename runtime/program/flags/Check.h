// Checks of the flags before ranks are started, and the options that follow from them.
#ifndef SHALE_RUNTIME_PROGRAM_FLAGS_CHECK_H
#define SHALE_RUNTIME_PROGRAM_FLAGS_CHECK_H

#include "runtime/checkpoint/Initial.h"
#include "runtime/comm/Rendezvous.h"
#include "runtime/data/Batches.h"
#include "runtime/device/Device.h"
#include "runtime/program/flags/Options.h"

namespace shale::rt {

// The options that concern the data, the initial weights and the device.
DataOptions dataOptions(const Options &options, bool evaluation);
InitOptions initOptions(const Options &options);
DeviceOptions deviceOptions(const Options &options, const Rendezvous &rendezvous);
/// Fails with exit code 65 if the file has fewer micro-batches than the run needs.
void needMicroBatches(const Batches &data, const Options &options, int64_t perStep);

/// Set by the launcher if --out had no checkpoint when it first started the ranks.
constexpr const char *kOwnCheckpoints = "SHALE_OWN_CHECKPOINTS";

/// Sets --resume for a run that was started again after a failure: it goes on from the newest
/// checkpoint that it has saved itself, if there is one.
void resumeRestarted(Options &options);

/// Converts --epochs to steps.
void resolveSteps(const ShaleProgram &program, Options &options);

/// Checks what can be checked without peers: files exist, are complete and large
/// enough, and no checkpoint conflicts with --resume never. Run by the launcher
/// before it starts ranks, so that one message is printed.
void checkOptions(const ShaleProgram &program, const Options &options);

} // namespace shale::rt

#endif
