// Checks that all ranks take part in the same run.
#include "runtime/program/launch/SameRun.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/StorageWait.h"
#include "runtime/data/OpenedFiles.h"
#include "runtime/program/reports/Describe.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/stat.h>

namespace shale::rt {

namespace {

/// Returns name, size and a hash of a file: of all bytes up to `most`, else of samples at even
/// distances.
std::string describeFile(const std::string &path, int64_t most) {
  InputFile file(path);
  int64_t size = file.size();
  bool whole = size <= most;
  uint64_t hash = sampledHash(file, most);
  return format("%s (%lld bytes, %s %016llx)", baseName(path).c_str(), (long long)size,
                whole ? "hash" : "hash of samples", (unsigned long long)hash);
}

constexpr int64_t kSampled = 4 << 20;

/// Returns the files that a flag names. Paths are left out: hosts may mount a folder elsewhere.
std::string describeFiles(const std::vector<std::string> &paths) {
  std::string text;
  for (const std::string &path : paths)
    text += (text.empty() ? "" : ", ") + describeFile(path, kSampled);
  return text;
}

bool isFolder(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string describeInit(const std::string &init) {
  if (init.empty() || init.compare(0, 7, "random:") == 0)
    return init.empty() ? "the model's own weights" : init;
  if (!isFolder(init))
    return describeFile(init, kSampled);
  std::vector<std::string> paths;
  for (const std::string &name : listFolder(init))
    if (endsWith(name, ".safetensors") || endsWith(name, ".safetensors.index.json"))
      paths.push_back(init + "/" + name);
  std::sort(paths.begin(), paths.end());
  return describeFiles(paths);
}

/// Returns the newest checkpoint from which the run may be resumed.
std::string describeCheckpoint(const Options &options) {
  bool inOut = options.resume == "auto" || options.resume == "must";
  if (options.resume == "never")
    return "none";
  std::vector<std::string> folders = listCheckpoints(inOut ? options.out : options.resume);
  if (folders.empty())
    return inOut ? "none" : baseName(options.resume);
  return baseName(folders.back());
}

/// Adds all flags but places, which may differ between hosts: factsOfRun() adds what is there. Of
/// files for output, adds whether there is one.
void addFlags(Facts &facts, const Options &options) {
  const std::set<std::string> places = {"--data",           "--eval-data", "--init",
                                        "--resume",         "--out",       "--interface",
                                        "--cuda-libraries", "--prometheus"};
  const std::set<std::string> files = {"--report-buffers", "--report-device",
                                       "--verify-checkpoint"};
  for (const auto &[name, value] : options.values) {
    bool isFile = files.count(name) > 0 && !value.empty();
    if (name == "--trace")
      facts.push_back({name, value.substr(0, value.find(' '))}); // without the file
    else if (!places.count(name))
      facts.push_back({name, isFile ? "a file" : value});
  }
  const std::string &how = options.resume;
  facts.push_back(
      {"--resume", how == "auto" || how == "must" || how == "never" ? how : "a folder"});
}

std::string pack(const Facts &facts) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto &[name, value] : facts)
    list.push_back({name, value});
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Reads what another rank has sent. Another version of the program may send anything.
Facts unpack(const std::string &text) {
  nlohmann::json list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  Facts facts;
  if (list.is_array())
    for (const nlohmann::json &one : list)
      if (one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string())
        facts.push_back({one[0].get<std::string>(), one[1].get<std::string>()});
  return facts;
}

std::string listRanks(const std::vector<size_t> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr size_t most = 8;
  for (size_t i = 0; i < std::min(ranks.size(), most); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > most)
    text += format(" and %zu more", ranks.size() - most);
  return text + (ranks.size() == 1 ? " has " : " have ");
}

} // namespace

Facts factsOfRun(const ShaleProgram &program, const Options &options) {
  Facts facts = {{"the model", baseName(program.model)},
                 {"the mesh", meshText(program)},
                 {"--shard", program.strategy},
                 {"--optimizer", program.optimizer}};
  addFlags(facts, options);
  for (const auto &[name, path] :
       {std::pair{"--data", options.data}, {"--eval-data", options.evalData}})
    facts.push_back({name, path.empty() ? "" : describeFiles(dataFiles(path))});
  facts.push_back({"--init", describeInit(options.init)});
  facts.push_back({"the newest checkpoint", describeCheckpoint(options)});
  // Last: without it, another model or mesh would only be another executable.
  facts.push_back({"the executable", describeFile("/proc/self/exe", int64_t(1) << 40)});
  for (const char *name :
       {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "NCCL_ALGO",
        "NCCL_PROTO", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "SHALE_PROFILE"})
    if (const char *value = std::getenv(name))
      facts.push_back({name, value});
  return facts;
}

std::string differences(const std::vector<Facts> &ranks) {
  std::vector<std::map<std::string, std::string>> values;
  std::vector<std::string> names;
  for (const Facts &facts : ranks) {
    values.emplace_back(facts.begin(), facts.end());
    for (const auto &[name, value] : facts)
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  }
  auto valueOf = [&](size_t rank, const std::string &name) {
    auto found = values[rank].find(name);
    return found == values[rank].end() || found->second.empty() ? std::string("none")
                                                                : found->second;
  };
  std::string text;
  int left = 6;
  for (const std::string &name : names) {
    std::map<std::string, std::vector<size_t>> others; // by value
    std::string first = valueOf(0, name);
    for (size_t r = 1; r < ranks.size(); ++r)
      if (std::string own = valueOf(r, name); own != first)
        others[own].push_back(r);
    // The executables differ if anything that is compiled in does.
    if (others.empty() || (name == "the executable" && !text.empty()))
      continue;
    if (left-- == 0)
      return text + "; and more";
    text += text.empty() ? "" : "; ";
    text += name + ": ";
    for (const auto &[value, list] : others)
      text += listRanks(list) + value + ", ";
    text += "rank 0 has " + first;
  }
  return text;
}

void checkSameRun(const ShaleProgram &program, const Options &options, int rank, Peers &peers) {
  StorageWait storage("the comparison of the ranks' files");
  std::vector<std::string> texts = peers.gather(pack(factsOfRun(program, options)));
  std::string text;
  if (rank == 0) {
    std::vector<Facts> facts;
    for (const std::string &one : texts)
      facts.push_back(unpack(one));
    text = differences(facts);
  }
  if (peers.agree(!text.empty()) == 0)
    return;
  if (rank == 0)
    fail(SHALE_EXIT_USAGE,
         "the ranks differ in what they run, so nothing was trained: %s. Start the same program "
         "with the same flags and files on every rank",
         text.c_str());
  throw Error(SHALE_EXIT_USAGE, ""); // rank 0 reports it
}

} // namespace shale::rt
