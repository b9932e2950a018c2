// main() of every emitted program: parses flags, then runs the launcher or one rank.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/checkpoint/Verify.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Output.h"
#include "runtime/device/Device.h"
#include "runtime/program/flags/Check.h"
#include "runtime/program/flags/Limits.h"
#include "runtime/program/launch/Launcher.h"
#include "runtime/program/launch/RunId.h"
#include "runtime/program/launch/Signals.h"
#include "runtime/program/loop/Training.h"
#include "runtime/program/reports/Describe.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>
#include <unistd.h>

using namespace shale::rt;

// Before the libraries' constructors: a signal that arrives earlier than this ends the process.
__attribute__((section(".preinit_array"),
               used)) static void (*const blockFirst)() = shale::rt::blockExitSignals;

/// Exits without destructors: worker threads may still use what these would free.
[[noreturn]] static void leave(int code) {
  flushOutput(code == SHALE_EXIT_OK ? std::nullopt : std::optional<int>(1));
  _exit(code);
}

static int start(int argc, char **argv) {
  checkProgram(shale_program);
  Parsed parsed = parseOptions(shale_program, argc, argv);
  if (!parsed.run) {
    unblockExitSignals();
    if (parsed.exitCode == SHALE_EXIT_OK)
      fputs(parsed.text.c_str(), stdout);
    else
      complain("error", parsed.text);
    return parsed.exitCode;
  }
  Options &options = parsed.options;
  if (options.describe) {
    unblockExitSignals();
    fputs(describe(shale_program).c_str(), stdout);
    return SHALE_EXIT_OK;
  }
  if (!options.verify.empty())
    return verifyCheckpoint(options.verify);
  Rendezvous rendezvous = rendezvousFromEnvironment();
  bool launched = !rendezvous.launcher.empty();
  int world = launched        ? rendezvous.worldSize
              : options.nproc ? options.nproc
                              : shale_program.world_size;
  if (launched && rendezvous.launcher != "shale" && options.nproc)
    fail(SHALE_EXIT_USAGE,
         "--nproc starts the ranks itself, and %s has already started them: leave --nproc out",
         rendezvous.launcher.c_str());
  if (launched && rendezvous.launcher != "shale" && options.maxRestarts > 0)
    fail(SHALE_EXIT_USAGE,
         "--max-restarts is for ranks that --nproc starts, and %s has started these: leave it out, "
         "and let %s start them again",
         rendezvous.launcher.c_str(), rendezvous.launcher.c_str());
  if (world != shale_program.world_size)
    fail(SHALE_EXIT_USAGE,
         "this program was compiled for %d rank%s (mesh %s), not %d: use "
         "--nproc "
         "%d, or compile it with another --mesh",
         shale_program.world_size, shale_program.world_size == 1 ? "" : "s",
         meshText(shale_program).c_str(), world, shale_program.world_size);
  checkThreadCount();
  checkDevice(shale_program, deviceOptions(options, rendezvous));
  bool trains = launched || (world == 1 && options.maxRestarts == 0);
  if (isRestarted())
    resumeRestarted(options);
  if (trains)
    executeWithoutCaches(
        argv,
        rendezvous.localSize);        // executes the program again: must be before any output
  if (rendezvous.launcher != "shale") // which has checked it for all ranks
    checkMemory(shale_program, launched ? rendezvous.localSize : world);
  resolveSteps(shale_program, options);
  if (rendezvous.launcher != "shale" && rendezvous.rank == 0)
    checkOptions(shale_program, options);
  if (!trains && listCheckpoints(options.out).empty())
    setenv(kOwnCheckpoints, "1", 1);
  if (!trains)
    return launchRanks(world, argv, options.maxRestarts, options.out);
  if (rendezvous.rank == 0)
    startOutput();
  // Never destroyed: the communicator's thread may be waiting in it, and after a
  // failure nothing wakes that thread.
  return (new Training(shale_program, options, rendezvous))->run();
}

int main(int argc, char **argv) {
  openStandardStreams();
  try {
    leave(start(argc, argv));
  } catch (const Error &error) {
    int code = exitCode(error.code);
    if (code == error.code && *error.what())
      complain("error", error.what());
    leave(code);
  } catch (const std::bad_alloc &) {
    complain("error", "out of memory");
    leave(SHALE_EXIT_NO_FIT);
  } catch (const std::system_error &error) {
    bool lacks = error.code() == std::errc::resource_unavailable_try_again ||
                 error.code() == std::errc::not_enough_memory;
    complain("error", lacks ? std::string("cannot start a thread: ") + error.what() +
                                  "; raise the limits of processes (ulimit -u) and of address "
                                  "space (ulimit -v)"
                            : error.what());
    leave(lacks ? SHALE_EXIT_NO_FIT : SHALE_EXIT_INTERNAL);
  } catch (const std::exception &error) {
    complain("error", error.what());
    leave(SHALE_EXIT_INTERNAL);
  }
}
