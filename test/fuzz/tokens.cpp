// Fuzzes files of tokens: .npy, and .bin with and without llm.c's header. The first line of the
// input is the ending, the type of tokens and the vocabulary; the rest is the file. In a .npy file
// the line after that is the header's dictionary.
#include "runtime/data/Tokens.h"
#include "test/fuzz/Runtime.h"
#include <sstream>

using namespace shale;
using namespace shale::fuzz;

namespace {
struct Input {
  std::string ending, type, dictionary, values;
  int64_t vocabulary = 0;
};

Input parse(const std::string &text) {
  Input input;
  size_t end = std::min(text.find('\n'), text.size());
  std::istringstream words(text.substr(0, end));
  words >> input.ending >> input.type >> input.vocabulary;
  input.values = end < text.size() ? text.substr(end + 1) : "";
  if (input.ending == ".npy") {
    end = std::min(input.values.find('\n'), input.values.size());
    input.dictionary = input.values.substr(0, end);
    input.values.erase(0, end + 1);
  }
  return input;
}

std::string print(const Input &input) {
  return input.ending + " " + input.type + " " + std::to_string(input.vocabulary) + "\n" +
         (input.ending == ".npy" ? input.dictionary + "\n" : "") + input.values;
}

/// The bytes of the file. A type that begins with '2' or '3' is the version of the .npy format.
std::string fileOf(const Input &input) {
  if (input.ending != ".npy")
    return input.values;
  char version = input.type.empty() || !isdigit(input.type[0]) ? '1' : input.type[0];
  std::string head = "\x93NUMPY";
  head += char(version - '0');
  head += '\0';
  uint32_t length = input.dictionary.size() + 1;
  head.append(reinterpret_cast<const char *>(&length), version == '1' ? 2 : 4);
  return head + input.dictionary + "\n" + input.values;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Folder folder;
  Input input = parse(std::string(reinterpret_cast<const char *>(data), size));
  bool known = input.ending == ".npy" || input.ending == ".bin" || input.ending == ".txt";
  std::string file = fileOf(input);
  std::string path = folder.write("tokens" + (known ? input.ending : ".bin"), file);
  rt::TokenOptions options;
  for (const char *type : {"uint8", "uint16", "uint32", "int32", "int64"})
    if (input.type == type) {
      options.type = type;
      options.typed = true;
    }
  options.vocabulary = std::max<int64_t>(0, input.vocabulary);
  return check(known && file.size() > 12, [&] {
    rt::TokenFile tokens(path, options);
    int64_t bytes = tokens.count() * rt::sizeOf(tokens.type());
    if (tokens.count() < 0 || tokens.offsetOf(0) + bytes > int64_t(file.size()))
      std::abort();
    std::vector<char> all(bytes);
    tokens.read(0, tokens.count(), all.data());
  });
}

/// Changes the dictionary as numpy might not write it, or one of the other parts.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  static const char *const kWords[] = {
      "'descr'", "'fortran_order'", "'shape'", "True", "False", "(", ")",  ",",  ": ",  "'<u2'",
      "'<i8'",   "'|u1'",           "'>u2'",   "{",    "}",     "5", "-1", "00", "1e3", "'"};
  static const char *const kTypes[] = {"uint8", "uint16", "uint32", "int32",
                                       "int64", "2",      "3",      "4"};
  Random random(seed);
  Input input = parse(std::string(reinterpret_cast<char *>(data), size));
  switch (random.below(6)) {
  case 0:
    input.ending = std::array{".npy", ".bin", ".txt"}[random.below(3)];
    break;
  case 1:
    input.type = kTypes[random.below(std::size(kTypes))];
    break;
  case 2:
    input.vocabulary = random.integer();
    break;
  case 3: // words of the dictionary
  case 4: {
    std::string &text = input.dictionary;
    size_t at = random.below(text.size() + 1),
           gone = random.below(std::min<size_t>(8, text.size() - at + 1));
    std::string word = random.below(3) ? kWords[random.below(std::size(kWords))]
                                       : std::to_string(random.integer());
    text.replace(at, random.below(2) ? gone : 0, word);
    break;
  }
  default: {
    std::vector<uint8_t> bytes(input.values.begin(), input.values.end());
    bytes.resize(bytes.size() + 1040);
    bytes.resize(LLVMFuzzerMutate(bytes.data(), input.values.size(), bytes.size()));
    input.values.assign(bytes.begin(), bytes.end());
    if (random.below(2)) { // llm.c's header
      int32_t header[256] = {
          random.below(2) ? 20240520 : 20240801, int32_t(1 + 6 * random.below(2)),
          random.below(2) ? int32_t(input.values.size() / 2) : int32_t(random.integer())};
      input.values.insert(0, reinterpret_cast<char *>(header), sizeof(header));
    }
  }
  }
  std::string made = print(input);
  if (made.size() > most)
    return size;
  std::copy(made.begin(), made.end(), data);
  return made.size();
}
