// The profile of SHALE_PROFILE.
#include "runtime/core/Profile.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace shale::rt {

namespace {
/// Times by name in a table of fixed size, so that a profiled run allocates as
/// little as any other.
struct Profile {
  struct Entry {
    char name[64];
    int64_t calls;
    double seconds;
  };
  bool on = std::getenv("SHALE_PROFILE") != nullptr, paused = false;
  std::array<Entry, 1024> entries{};
  size_t used = 0;

  void add(const char *name, double seconds) {
    for (size_t i = 0; i < used; ++i)
      if (std::strncmp(entries[i].name, name, sizeof(entries[i].name) - 1) == 0) {
        ++entries[i].calls;
        entries[i].seconds += seconds;
        return;
      }
    if (used == entries.size())
      return;
    snprintf(entries[used].name, sizeof(entries[used].name), "%s", name);
    entries[used].calls = 1;
    entries[used++].seconds = seconds;
  }
};
Profile profile;
} // namespace

bool profiling() { return profile.on && !profile.paused; }

void pauseProfile(bool paused) { profile.paused = paused; }

double profileNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void profileAdd(const char *name, double start) { profile.add(name, profileNow() - start); }

std::string profileTable() {
  if (!profile.on)
    return "";
  std::vector<Profile::Entry> entries(profile.entries.begin(),
                                      profile.entries.begin() + profile.used);
  std::sort(entries.begin(), entries.end(),
            [](const Profile::Entry &x, const Profile::Entry &y) { return x.seconds > y.seconds; });
  double total = 0;
  for (const Profile::Entry &entry : entries)
    total += entry.seconds;
  std::string text = format("%12s %10s %6s  %s\n", "ms", "calls", "%", "kernel");
  for (const Profile::Entry &entry : entries)
    text += format("%12.3f %10lld %6.1f  %s\n", entry.seconds * 1e3, (long long)entry.calls,
                   100 * entry.seconds / total, entry.name);
  return text;
}

} // namespace shale::rt
