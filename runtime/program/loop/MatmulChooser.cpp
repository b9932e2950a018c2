// Chooses the algorithms of matmuls before the first step.
#include "runtime/program/loop/MatmulChooser.h"
#include "runtime/core/Error.h"
#include "runtime/device/MatmulFile.h"
#include "runtime/program/launch/Signals.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace shale::rt {

namespace {

// Time on the device after which the remaining matmuls take the library's first proposal.
constexpr double kMostSeconds = 10;

MatmulFile matmulFile(const Options &options) {
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  // If /proc is not mounted, the file is in --out.
  return MatmulFile(error ? options.out + "/program" : program.string(), options.out);
}

/// Sends a text of rank 0 to all ranks.
std::string share(Peers &peers, int rank, int worldSize, std::string text) {
  int64_t bytes = static_cast<int64_t>(text.size());
  if (rank != 0) {
    peers.receive(0, &bytes, sizeof(bytes));
    text.resize(bytes);
    peers.receive(0, text.data(), bytes);
    return text;
  }
  for (int to = 1; to < worldSize; ++to) {
    peers.send(to, &bytes, sizeof(bytes));
    peers.send(to, text.data(), bytes);
  }
  return text;
}

/// Uses the choices for these matmuls. Removes the choices that the device cannot run, and warns
/// once if there are any; `instead` says what happens to them.
void useChoices(MatmulTuner &tuner, const std::vector<Matmul> &matmuls, Choices &choices,
                const char *instead) {
  std::string refused;
  int64_t count = 0;
  for (const Matmul &matmul : matmuls) {
    auto found = choices.find(tuner.keyOf(matmul));
    if (found == choices.end() || tuner.use(matmul, found->second.algorithm))
      continue;
    refused = found->first;
    choices.erase(found);
    ++count;
  }
  if (count > 0)
    warn("this GPU cannot run the algorithms chosen for %lld of %zu matmuls, such as %s: %s",
         (long long)count, matmuls.size(), refused.c_str(), instead);
}

/// Says what was timed and where it is kept.
void tell(const Choices &choices, const std::set<std::string> &timed, const std::string &path,
          bool beside) {
  int64_t faster = 0, left = 0;
  for (const std::string &key : timed) {
    auto found = choices.find(key);
    bool isTimed = found != choices.end() && found->second.first > 0;
    left += !isTimed;
    faster += isTimed && found->second.best < found->second.first;
  }
  std::string text =
      format("timed %lld of %zu matmuls: another algorithm than the first is faster for %lld",
             (long long)(int64_t(timed.size()) - left), timed.size(), (long long)faster);
  if (!path.empty())
    text += format("; kept in '%s'", path.c_str());
  if (!path.empty() && !beside)
    text += ", because it cannot be written beside the program";
  printf("%s\n", text.c_str());
  fflush(stdout);
}

/// Returns matmuls with different keys. Those that compute most come first:
/// if the time ends, small ones are left. A matmul comes before the same with an epilogue.
std::vector<Matmul> distinctOf(const std::vector<Matmul> &all, const MatmulTuner &tuner) {
  std::vector<Matmul> distinct;
  std::map<std::string, double> work; // of all matmuls of a key
  for (const Matmul &p : all) {
    auto [place, isNew] = work.try_emplace(tuner.keyOf(p), 0);
    place->second += double(p.batch) * p.m * p.n * p.k;
    if (isNew)
      distinct.push_back(p);
  }
  std::stable_sort(distinct.begin(), distinct.end(), [&](const Matmul &x, const Matmul &y) {
    return work.at(tuner.keyOf(x)) > work.at(tuner.keyOf(y));
  });
  return distinct;
}

} // namespace

/// Times matmuls on rank 0, while the others wait for it one matmul at a time: none of them waits
/// for long. Returns the exit code of a signal, or 0.
int MatmulChooser::timeMatmuls(MatmulTuner &tuner, const std::vector<Matmul> &matmuls,
                               Choices &choices) {
  if (!matmuls.empty())
    tuner.begin(loaded.arena().data(), loaded.arena().size());
  int said = 0;
  for (size_t next = 0;; ++next) {
    int more = next < matmuls.size() ? 1 : 0; // an exit code is larger
    said = static_cast<int>(setup.peers().agree(std::max(requestedExit(), more)));
    if (said != 1)
      break;
    if (more == 0)
      continue; // another rank has matmuls left
    progress.work("timing matmuls", int64_t(next), int64_t(matmuls.size()));
    Choice choice = tuner.choose(matmuls[next], tuner.seconds() < kMostSeconds);
    // A matmul is timed with its epilogue after it was chosen how to compute it without.
    tuner.use(matmuls[next], choice.algorithm);
    choices[tuner.keyOf(matmuls[next])] = choice;
  }
  progress.clear();
  if (!matmuls.empty())
    tuner.end();
  if (said != 0 && setup.isFirst())
    printf("stopped by a signal before the first step: matmuls were not all timed\n");
  return said;
}

int MatmulChooser::choose(bool trains) {
  MatmulTuner *tuner = loaded.rank().device->tuner();
  if (!tuner || !setup.options.tuneMatmuls)
    return 0;
  std::vector<Matmul> matmuls = distinctOf(loaded.matmuls(), *tuner), left;
  MatmulFile file = matmulFile(setup.options);
  Choices choices;
  std::set<std::string> timed;
  if (setup.isFirst()) {
    Choices kept = file.load(tuner->machine());
    useChoices(*tuner, matmuls, kept, "they are chosen again");
    for (const Matmul &matmul : matmuls) {
      std::string key = tuner->keyOf(matmul);
      if (auto found = kept.find(key); found != kept.end()) {
        choices.insert(*found);
      } else if (trains) {
        left.push_back(matmul);
        timed.insert(key);
      }
    }
  }
  if (int code = timeMatmuls(*tuner, left, choices))
    return code;
  std::string text =
      share(setup.peers(), setup.rank(), setup.rendezvous.worldSize, matmulText("rank 0", choices));
  choices = parseMatmuls(text, "rank 0");
  useChoices(*tuner, matmuls, choices, "they take the first algorithm");
  if (!timed.empty()) {
    std::string path = file.store(tuner->machine(), choices);
    tell(choices, timed, path, path == file.first());
  }
  return 0;
}

} // namespace shale::rt
