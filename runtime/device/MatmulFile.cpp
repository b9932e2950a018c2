// Reads and writes the algorithms of a program's matmuls.
#include "runtime/device/MatmulFile.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Json.h"

#include <cmath>

namespace shale::rt {

using nlohmann::json;

namespace {

constexpr int kFormat = 2; // 1: partial sums in the type of the result were allowed
constexpr int64_t kMostBytes = int64_t(16) << 20; // some 30,000 matmuls
constexpr size_t kLongestText = 1024;             // of a key or an algorithm

std::string sumOf(const json &body) {
  std::string text = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return format("%016llx", (unsigned long long)checksumOf(text));
}

std::string shortText(const json &object, const char *name) {
  auto text = object.at(name).get<std::string>();
  if (text.empty() || text.size() > kLongestText)
    throw std::runtime_error(format("'%s' has %zu characters", name, text.size()));
  for (char &c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) // no control characters
      c = '?';
  return text;
}

double microseconds(const json &object, const char *name) {
  double value = object.at(name).get<double>();
  if (!(value >= 0 && std::isfinite(value)))
    throw std::runtime_error(format("'%s' is not a time", name));
  return value;
}

Choices choicesFrom(const json &matmuls) {
  Choices choices;
  for (const json &object : matmuls) {
    Choice choice;
    choice.algorithm = shortText(object, "algorithm");
    if (choice.algorithm.find_first_not_of("0123456789abcdef") != std::string::npos)
      throw std::runtime_error("an algorithm is not hexadecimal digits");
    choice.first = microseconds(object, "first_us");
    choice.best = microseconds(object, "us");
    choices[shortText(object, "matmul")] = choice;
  }
  return choices;
}

} // namespace

std::string matmulText(const std::string &machine, const Choices &choices) {
  json matmuls = json::array();
  for (const auto &[key, choice] : choices)
    matmuls.push_back({{"matmul", key},
                       {"algorithm", choice.algorithm},
                       {"first_us", choice.first},
                       {"us", choice.best}});
  json body = {{"format", kFormat}, {"machine", machine}, {"matmuls", matmuls}};
  json file = {{"body", body}, {"xxh3", sumOf(body)}};
  return file.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Choices parseMatmuls(const std::string &text, const std::string &machine) {
  std::string made;
  try {
    json file = parseJson(text);
    const json &body = file.at("body");
    if (file.at("xxh3").get<std::string>() != sumOf(body))
      throw std::runtime_error("its checksum does not match");
    if (body.at("format") != kFormat)
      fail(SHALE_EXIT_DATA, "was written by another version of Shale");
    made = shortText(body, "machine");
    if (made == machine)
      return choicesFrom(body.at("matmuls"));
  } catch (const Error &) {
    throw;
  } catch (const std::exception &error) {
    fail(SHALE_EXIT_DATA, "is damaged (%s)", error.what());
  }
  fail(SHALE_EXIT_DATA, "is for %s, and this is %s", made.c_str(), machine.c_str());
}

MatmulFile::MatmulFile(const std::string &program, const std::string &otherwise)
    : paths{program + ".matmuls.json", otherwise + "/" + baseName(program) + ".matmuls.json"} {}

Choices MatmulFile::load(const std::string &machine) const {
  for (const std::string &path : paths) {
    if (!exists(path))
      continue;
    std::string trouble;
    bool isRead = false;
    try {
      std::string text = readText(path, kMostBytes);
      isRead = true;
      return parseMatmuls(text, machine);
    } catch (const Error &error) {
      trouble = isRead ? "'" + path + "' " + error.what() : error.what();
    }
    warn("%s: its algorithms of matmuls are not used", trouble.c_str());
  }
  return {};
}

std::string MatmulFile::store(const std::string &machine, const Choices &choices) const {
  std::string text = matmulText(machine, choices), trouble;
  for (const std::string &path : paths)
    try {
      replaceFile(path, text);
      return path;
    } catch (const Error &error) {
      trouble = error.what();
    }
  warn("%s; the next start may choose other algorithms of matmuls, and have other bits",
       trouble.c_str());
  return "";
}

} // namespace shale::rt
