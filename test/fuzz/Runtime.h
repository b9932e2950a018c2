//===- Runtime.h - What the fuzz targets of the runtime share -------------===//
#ifndef SHALE_TEST_FUZZ_RUNTIME_H
#define SHALE_TEST_FUZZ_RUNTIME_H

#include "runtime/core/Error.h"
#include "test/fuzz/Fuzz.h"
#include <exception>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace shale::fuzz {

using Tree = nlohmann::ordered_json;

/// A folder that the process uses alone, removed at its end.
class Folder {
public:
  Folder() {
    const char *above = std::getenv("TMPDIR");
    text = std::string(above ? above : "/tmp") + "/shale-fuzz-XXXXXX";
    if (!mkdtemp(text.data()))
      std::abort();
  }
  ~Folder() {
    for (const std::string &file : files)
      unlink((text + "/" + file).c_str());
    rmdir(text.c_str());
  }
  const std::string &path() const { return text; }
  /// Writes a file and returns its path.
  std::string write(const std::string &name, std::string_view bytes) {
    std::string path = text + "/" + name;
    FILE *file = std::fopen(path.c_str(), "wb");
    if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size())
      std::abort();
    std::fclose(file);
    files.insert(name);
    return path;
  }

private:
  std::string text;
  std::set<std::string> files;
};

/// Runs `body` on one input. The runtime reports what it refuses by exceptions of class Error, with
/// exit code 64, 65, 66 or 76; `parses` tells whether the first check passed. Any other exception
/// is a finding.
template <typename Body> int check(bool parses, const Body &body) {
  ++counts().inputs;
  counts().beyond += parses;
  try {
    body();
    ++counts().accepted;
  } catch (const rt::Error &error) {
    if (std::getenv("SHALE_FUZZ_PRINT"))
      std::fprintf(stderr, "%d: %s\n", error.code, error.what());
    if (error.code != 64 && error.code != 65 && error.code != 66 && error.code != 76)
      std::abort();
  }
  return 0;
}

/// Returns a random value of a tree.
inline Tree &pick(Tree &tree, Random &random) {
  Tree *at = &tree;
  while (at->is_structured() && !at->empty() && random.below(8)) {
    size_t which = random.below(at->size());
    at = &*std::next(at->begin(), which);
  }
  return *at;
}

/// Changes one value of a tree: another number, type or string, a value of elsewhere, one entry
/// more or less.
inline void mutate(Tree &tree, Random &random) {
  static const char *const kStrings[] = {"",     "F32",  "BF16",          "I64",    "BOOL",
                                         "f32",  "bf16", "/etc/hostname", "../x",   ".",
                                         "\x01", "a/b",  "param",         "exp_avg"};
  Tree &at = pick(tree, random);
  switch (random.below(8)) {
  case 0:
    at = random.integer();
    break;
  case 1:
    at = random.below(2) ? Tree(uint64_t(random.integer())) : Tree(double(random.integer()) / 3);
    break;
  case 2:
    at = kStrings[random.below(std::size(kStrings))];
    break;
  case 3:
    at = Tree(pick(tree, random)); // a copy: it may contain `at`
    break;
  case 4:
    if (at.is_structured() && !at.empty())
      at.erase(std::next(at.begin(), random.below(at.size())));
    else if (at.is_number_integer())
      at = at.get<int64_t>() / 2;
    break;
  case 5:
    if (at.is_array() && at.size() < 64)
      at.push_back(Tree(pick(tree, random)));
    else if (at.is_object() && at.size() < 64)
      at["n" + std::to_string(random.below(20))] = Tree(pick(tree, random));
    break;
  case 6:
    if (at.is_number_integer())
      at = int64_t(uint64_t(at.get<int64_t>()) + random.below(5) - 2);
    else if (at.is_string() && !at.get<std::string>().empty())
      at = at.get<std::string>() + char('0' + random.below(10));
    break;
  default:
    at = random.below(2) ? Tree() : Tree(bool(random.below(2)));
  }
}

/// Mutates JSON text: its values, and now and then its bytes or one key (which may then be there
/// twice). Text that is not JSON gives place to the last one that was.
inline std::string mutateJson(const std::string &text, Random &random) {
  static Tree last = Tree::object();
  Tree tree = Tree::parse(text, nullptr, false);
  if (!tree.is_structured())
    tree = last;
  last = tree;
  if (random.below(16) == 0) {
    std::vector<uint8_t> bytes(text.begin(), text.end());
    bytes.resize(text.size() + 16);
    bytes.resize(LLVMFuzzerMutate(bytes.data(), text.size(), bytes.size()));
    return std::string(bytes.begin(), bytes.end());
  }
  for (size_t i = 0, n = 1 + random.below(3); i < n; ++i)
    mutate(tree, random);
  std::string made = tree.dump(-1, ' ', false, Tree::error_handler_t::replace);
  if (random.below(12) == 0) { // a key of elsewhere
    std::vector<size_t> quotes;
    for (size_t at = made.find('"'); at != std::string::npos; at = made.find('"', at + 1))
      quotes.push_back(at);
    if (quotes.size() >= 4 && quotes.size() % 2 == 0) {
      size_t from = random.below(quotes.size() / 2) * 2, to = random.below(quotes.size() / 2) * 2;
      std::string word = made.substr(quotes[from], quotes[from + 1] - quotes[from] + 1);
      made.replace(quotes[to], quotes[to + 1] - quotes[to] + 1, word);
    }
  }
  return made;
}

} // namespace shale::fuzz

#endif // SHALE_TEST_FUZZ_RUNTIME_H
