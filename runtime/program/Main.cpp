// main() of every emitted program: parses flags, then runs the launcher or one rank.
#include "runtime/checkpoint/Layout.h"
#include "runtime/core/Error.h"
#include "runtime/device/Device.h"
#include "runtime/program/Describe.h"
#include "runtime/program/Launcher.h"
#include "runtime/program/Training.h"

#include <cstdio>
#include <new>
#include <unistd.h>

using namespace shale::rt;

/// Exits without destructors: worker threads may still use what these would free.
[[noreturn]] static void leave(int code) {
  fflush(stdout);
  _exit(code);
}

static int start(int argc, char **argv) {
  checkProgram(shale_program);
  Parsed parsed = parseOptions(shale_program, argc, argv);
  if (!parsed.run) {
    if (parsed.exitCode == SHALE_EXIT_OK)
      fputs(parsed.text.c_str(), stdout);
    else
      complain("error", parsed.text);
    return parsed.exitCode;
  }
  Options &options = parsed.options;
  if (options.describe) {
    fputs(describe(shale_program).c_str(), stdout);
    return SHALE_EXIT_OK;
  }
  Rendezvous rendezvous = rendezvousFromEnvironment();
  bool launched = !rendezvous.launcher.empty();
  int world = launched        ? rendezvous.worldSize
              : options.nproc ? options.nproc
                              : shale_program.world_size;
  if (launched && rendezvous.launcher != "shale" && options.nproc)
    fail(SHALE_EXIT_USAGE,
         "--nproc starts the ranks itself, and %s has already started them: leave --nproc out",
         rendezvous.launcher.c_str());
  if (world != shale_program.world_size)
    fail(SHALE_EXIT_USAGE,
         "this program was compiled for %d rank%s (mesh %s), not %d: use "
         "--nproc "
         "%d, or compile it with another --mesh",
         shale_program.world_size, shale_program.world_size == 1 ? "" : "s",
         meshText(shale_program).c_str(), world, shale_program.world_size);
  checkDevice(shale_program, deviceOptions(options, rendezvous));
  bool trains = launched || world == 1;
  if (trains)
    executeWithoutCaches(
        argv,
        rendezvous.localSize); // executes the program again: must be before any output
  resolveSteps(shale_program, options);
  if (rendezvous.launcher != "shale" && rendezvous.rank == 0)
    checkOptions(shale_program, options);
  if (!trains)
    return launchRanks(world, argv);
  // Never destroyed: the communicator's thread may be waiting in it, and after a
  // failure nothing wakes that thread.
  return (new Training(shale_program, options, rendezvous))->run();
}

int main(int argc, char **argv) {
  try {
    leave(start(argc, argv));
  } catch (const Error &error) {
    complain("error", error.what());
    leave(error.code);
  } catch (const std::bad_alloc &) {
    complain("error", "out of memory");
    leave(SHALE_EXIT_NO_FIT);
  } catch (const std::exception &error) {
    complain("error", error.what());
    leave(SHALE_EXIT_INTERNAL);
  }
}
