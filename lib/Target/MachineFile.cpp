//===- MachineFile.cpp - Reads the rates of a machine from a file ---------===//
//
// A machine file is TOML without tables and arrays: a key and a value on each line. Its keys are
// the rows of kKeys.
//
//===----------------------------------------------------------------------===//
#include "lib/Support/ByteSize.h"
#include "lib/Support/InputFile.h"
#include "lib/Support/Printable.h"
#include "lib/Target/Machines.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>

using namespace shale;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// The most bytes of a machine file.
constexpr int64_t kMostBytes = 64 << 10;
constexpr double kMostRate = 1e18, kLongest = 3600;
constexpr int64_t kMostNodeRanks = 1 << 20;

/// A key of a machine file. One of the pointers is set.
struct Key {
  const char *name;
  const char *what; ///< what its value is, for messages
  bool required;
  std::string Rates::*text = nullptr;
  double Rates::*number = nullptr;
  bool isLatency = false; ///< seconds, else a rate or factor, at least 1
  int64_t Rates::*size = nullptr;
  bool Rates::*flag = nullptr;
  int64_t Rates::*count = nullptr;
};

Key text(const char *name, const char *what, std::string Rates::*at, bool required) {
  Key key{name, what, required};
  key.text = at;
  return key;
}
Key rate(const char *name, const char *what, double Rates::*at, bool required = true) {
  Key key{name, what, required};
  key.number = at;
  return key;
}
Key latency(const char *name, double Rates::*at, bool required = true) {
  Key key = rate(name, "seconds", at, required);
  key.isLatency = true;
  return key;
}
Key size(const char *name, int64_t Rates::*at) {
  Key key{name, "a size such as \"80GiB\"", false};
  key.size = at;
  return key;
}

const std::vector<Key> &keys() {
  static const std::vector<Key> all = [] {
    const char *operations = "operations per second", *bytes = "bytes per second";
    Key one{"one_memory", "true or false", false}, ranks{"node_ranks", "ranks per node", false};
    one.flag = &Rates::oneMemory;
    ranks.count = &Rates::nodeRanks;
    return std::vector<Key>{
        text("name", "a text", &Rates::name, true),
        text("source", "a text", &Rates::source, false),
        rate("f32_matmuls", operations, &Rates::flops),
        rate("tf32_matmuls", operations, &Rates::flopsTf32),
        rate("f16_matmuls", operations, &Rates::flops16),
        rate("f8_matmuls", operations, &Rates::flops8, false),
        rate("attention_matmuls", operations, &Rates::attention),
        rate("attention_scores", "exponentials per second", &Rates::scores, false),
        rate("device_memory", bytes, &Rates::memory),
        rate("host_memory", bytes, &Rates::hostMemory),
        rate("host_copies", bytes, &Rates::host),
        rate("f16_bytes_cost", "a factor", &Rates::bytes16, false),
        one,
        size("capacity", &Rates::capacity),
        size("reserved", &Rates::reserved),
        latency("launch_latency", &Rates::launch),
        ranks,
        rate("node_rate", bytes, &Rates::link),
        latency("node_latency", &Rates::collective),
        rate("network_rate", bytes, &Rates::network, false),
        latency("network_latency", &Rates::networkLatency, false),
    };
  }();
  return all;
}

class Parser {
public:
  Parser(StringRef path, ToolError &error) : path(path), error(error) {}

  std::optional<Rates> run(StringRef text) {
    if (int64_t(text.size()) > kMostBytes)
      return fail("is longer than " + Twine(kMostBytes >> 10) +
                  " KiB: a machine file has one line for each of " + Twine(keys().size()) +
                  " keys"),
             std::nullopt;
    while (!text.empty()) {
      auto [first, rest] = text.split('\n');
      ++line;
      text = rest;
      if (!parseLine(first.trim()))
        return std::nullopt;
    }
    line = 0;
    if (!isWhole())
      return std::nullopt;
    return std::move(rates);
  }

private:
  bool fail(const Twine &message) {
    std::string place = path.str() + (line ? ":" + std::to_string(line) : "");
    error = {place + ": " + printable(message.str()), SHALE_EXIT_DATA};
    return false;
  }

  bool parseLine(StringRef content) {
    if (content.empty() || content.starts_with("#"))
      return true;
    StringRef name = content.split('=').first.rtrim(), value = content.split('=').second.ltrim();
    if (!content.contains('='))
      return fail("'" + content.take_front(80) +
                  "' is not a key and its value: write KEY = VALUE, and # before a comment");
    auto key = llvm::find_if(keys(), [&](const Key &each) { return name == each.name; });
    if (key == keys().end())
      return fail("a machine has no '" + name.take_front(80) + "'" + nearest(name));
    if (int64_t &before = lines[key - keys().begin()]; before)
      return fail("'" + name + "' is given again: leave out one of the lines " + Twine(before) +
                  " and " + Twine(line));
    else
      before = line;
    if (!value.starts_with("\""))
      return parseBare(*key, value.take_until([](char c) { return c == '#'; }).rtrim());
    auto [inside, after] = value.drop_front().split('"');
    if (inside.size() + 1 == value.size() || inside.contains('\\'))
      return fail("'" + name + "': the text does not end with a quote, or has a backslash");
    after = after.ltrim();
    if (!after.empty() && !after.starts_with("#"))
      return fail("'" + name + "': only a comment can follow the value");
    return parseText(*key, inside);
  }

  static std::string nearest(StringRef name) {
    std::vector<std::string> all;
    for (const Key &key : keys()) {
      if (name.take_front(80).edit_distance(key.name, true, 4) <= 3)
        return "; did you mean '" + std::string(key.name) + "'?";
      all.push_back(key.name);
    }
    return "; its keys are " + llvm::join(all, ", ");
  }

  bool expected(const Key &key, StringRef value) {
    std::string wanted = key.what;
    if (key.text)
      wanted = "a text in quotes, of 1 to 200 printable characters";
    else if (key.count)
      wanted += ", a whole number from 1 to " + std::to_string(kMostNodeRanks);
    else if (key.number)
      wanted += key.isLatency ? ", a number from 0 to 3600" : ", a number from 1 to 1e18";
    return fail("'" + Twine(key.name) + "' is " + wanted + ", not '" + value.take_front(80) + "'");
  }

  bool parseText(const Key &key, StringRef value) {
    if (key.size) {
      std::optional<int64_t> bytes = parseByteSize(value);
      rates.*key.size = bytes.value_or(0);
      return bytes || expected(key, value);
    }
    if (!key.text || value.empty() || value.size() > 200 || !llvm::all_of(value, llvm::isPrint))
      return expected(key, value);
    rates.*key.text = value.str();
    return true;
  }

  bool parseBare(const Key &key, StringRef value) {
    if (key.flag) {
      rates.*key.flag = value == "true";
      return value == "true" || value == "false" || expected(key, value);
    }
    if (key.count) {
      int64_t &count = rates.*key.count;
      return (!value.getAsInteger(10, count) && count >= 1 && count <= kMostNodeRanks) ||
             expected(key, value);
    }
    if (!key.number)
      return expected(key, value);
    double &number = rates.*key.number, least = key.isLatency ? 0 : 1,
           most = key.isLatency ? kLongest : kMostRate;
    if (value.getAsDouble(number) || !(number >= least && number <= most))
      return expected(key, value);
    return true;
  }

  /// Whether all keys are there that a machine needs.
  bool isWhole() {
    for (auto [index, key] : llvm::enumerate(keys())) {
      bool network = key.number == &Rates::network || key.number == &Rates::networkLatency;
      if (lines[index] == 0 && (key.required || (network && rates.nodeRanks > 0)))
        return fail("has no '" + Twine(key.name) + "': add the line " + key.name + " = VALUE (" +
                    key.what + ")" + (network ? ", or leave out node_ranks" : ""));
      if (lines[index] > 0 && network && rates.nodeRanks == 0)
        return fail("has '" + Twine(key.name) +
                    "', but no 'node_ranks': add it, or leave out the network, if all ranks are "
                    "in one node");
    }
    if (rates.reserved > rates.capacity)
      return fail("'reserved' is more than 'capacity', of which it is a part");
    return true;
  }

  StringRef path;
  ToolError &error;
  Rates rates;
  int64_t line = 0;
  std::vector<int64_t> lines = std::vector<int64_t>(keys().size()); // by key; 0: not yet given
};
} // namespace

std::optional<Rates> shale::parseMachine(StringRef text, StringRef path, ToolError &error) {
  return Parser(path, error).run(text);
}

std::optional<Rates> shale::readMachine(StringRef path, ToolError &error) {
  std::unique_ptr<llvm::MemoryBuffer> file = openInput(path, error);
  return file ? parseMachine(file->getBuffer(), path, error) : std::nullopt;
}

AxisLink shale::linkOf(const Rates &rates, int64_t ranks, int64_t stride, int64_t size) {
  AxisLink link{1, rates.link, rates.collective};
  int64_t node = rates.nodeRanks, span = stride * size; // a mesh has at most 2^20 ranks
  if (node == 0 || ranks <= node || size <= 1 || node % span == 0)
    return link;
  // Groups that do not begin where a node does are in one node more, with one rank there.
  bool aligned = node % stride == 0 && span % node == 0;
  int64_t share = aligned ? node / stride : 1;
  link.nodes = stride >= node ? size
               : aligned      ? span / node
                              : std::min<int64_t>(size, llvm::divideCeil(span, node) + 1);
  link.rate = share > 1 ? std::min(rates.link, double(share) * rates.network) : rates.network;
  link.latency += double(link.nodes - 1) * rates.networkLatency;
  return link;
}
