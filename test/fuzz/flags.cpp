// Fuzzes shalec's command line: one word per line. What parses is checked, printed and parsed
// again.
#include "lib/Options/Flags.h"
#include "lib/Target/Target.h"
#include "passes/Stages.h"
#include "test/fuzz/Context.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using namespace shale::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<std::string> words = {"shalec"};
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(reinterpret_cast<const char *>(data), size).split(lines, '\n', -1, false);
  for (llvm::StringRef line : lines)
    if (!line.contains('\0') && words.size() < 64)
      words.push_back(line.str());
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  ++counts().inputs;
  ParsedOptions parsed = parseOptions(argv.size() - 1, argv.data());
  if (!parsed.options)
    return 0;
  ++counts().beyond;
  std::string wrong;
  const Target *target = findTarget(parsed.options->target, wrong);
  if (!target)
    return 0;
  if (!parsed.options->machine) // as shalec does
    parsed.options->machine = &target->getRates();
  counts().accepted += checkFlags(*parsed.options, *target) == 0;
  for (const Flag &flag : allFlags())
    if (flag.get) { // what a flag prints has its meaning
      CompileOptions again = *parsed.options;
      std::string text = flag.get(*parsed.options);
      if (!text.empty() && flag.set(again, text).empty() && flag.get(again) != text &&
          !flag.repeated)
        std::abort();
    }
  for (const Stage &stage : stagesFor(*parsed.options))
    (void)describeStage(stage);
  return 0;
}

/// Words and their values, for mutations.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  llvm::SmallVector<llvm::StringRef> lines;
  std::string before(reinterpret_cast<char *>(data), size);
  llvm::StringRef(before).split(lines, '\n', -1, false);
  std::string added = "--";
  const Flag &flag = allFlags()[random.below(allFlags().size())];
  added += flag.name;
  switch (random.below(4)) {
  case 0: { // bytes
    size_t made = LLVMFuzzerMutate(data, size, most);
    return made;
  }
  case 1:
    if (!lines.empty())
      lines.erase(lines.begin() + random.below(lines.size()));
    break;
  case 2: { // a flag with its default, or with a number
    CompileOptions options;
    options.machine = nullptr;
    added +=
        "=" + (flag.get && random.below(2) ? flag.get(options) : std::to_string(random.integer()));
    lines.push_back(added);
    break;
  }
  default: // a flag with the value of another
    if (lines.empty())
      return LLVMFuzzerMutate(data, size, most);
    added += "=" + lines[random.below(lines.size())].split('=').second.str();
    lines.push_back(added);
  }
  std::string text = llvm::join(lines, "\n");
  if (text.size() > most)
    return size;
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
