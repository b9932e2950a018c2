// The profile of SHALE_PROFILE: time of the main thread by kernel, matmul and wait.
#ifndef SHALE_RUNTIME_CORE_PROFILE_H
#define SHALE_RUNTIME_CORE_PROFILE_H

#include <string>

namespace shale::rt {

/// Whether SHALE_PROFILE is set, and the profile is not paused.
bool profiling();
/// Leaves calls out of the profile that are not part of training.
void pauseProfile(bool paused);
/// Returns seconds of a steady clock.
double profileNow();
/// Adds the time since `start` (profileNow) under a name; main thread only.
void profileAdd(const char *name, double start);
/// Returns the times by name, the longest first; "" without SHALE_PROFILE.
std::string profileTable();

} // namespace shale::rt

#endif
