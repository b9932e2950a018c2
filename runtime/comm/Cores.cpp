// The share of a host's cores that a rank's threads get.
#include "runtime/comm/Cores.h"
#include "runtime/core/Process.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sched.h>
#include <sstream>
#include <unistd.h>

namespace shale::rt {

namespace {
/// Returns the kernel's boot ID as the host's name: two containers on one host may have
/// different host names but share its cores.
std::string hostName() {
  if (std::string id = bootId(); !id.empty())
    return id;
  char name[256] = "?";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string ownText() {
  std::string text = hostName() + "\n";
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set))
        text += std::to_string(cpu) + " ";
  return text;
}
} // namespace

std::vector<int> shareCores(const std::vector<RankCores> &ranks) {
  std::map<std::pair<std::string, int>, int> users;
  for (const RankCores &rank : ranks)
    for (int cpu : rank.cpus)
      ++users[{rank.host, cpu}];
  std::vector<int> threads(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    const RankCores &rank = ranks[r];
    double share = 0;
    for (int cpu : rank.cpus)
      share += 1.0 / users[{rank.host, cpu}];
    threads[r] = std::max(1, static_cast<int>(std::floor(share + 1e-9)));
  }
  return threads;
}

int shareOfCores(Peers &peers, int rank, int worldSize) {
  std::vector<std::string> texts = peers.gather(ownText());
  int32_t own = 1;
  if (rank != 0) {
    peers.receive(0, &own, sizeof(own));
    return own;
  }
  std::vector<RankCores> ranks;
  for (const std::string &text : texts) {
    RankCores cores;
    std::istringstream lines(text);
    std::getline(lines, cores.host);
    for (int cpu; lines >> cpu;)
      cores.cpus.push_back(cpu);
    ranks.push_back(std::move(cores));
  }
  std::vector<int> threads = shareCores(ranks);
  for (int r = 1; r < worldSize; ++r) {
    own = threads[r];
    peers.send(r, &own, sizeof(own));
  }
  return threads[0];
}

} // namespace shale::rt
