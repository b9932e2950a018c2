// Finds the program's parameters in the files that --init names.
#include "runtime/checkpoint/Given.h"
#include "runtime/checkpoint/Masks.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/core/Error.h"
#include "runtime/core/Json.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

namespace shale::rt {

namespace {
constexpr int64_t indexLimit = int64_t(1) << 28;
constexpr int64_t chunkBytes = 1 << 20;

bool isFolder(const std::string &path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

std::string listText(const std::vector<std::string> &names, size_t most = 12) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i ? ", " : "") + printable(names[i]);
  if (names.size() > most)
    text += format(" and %zu more", names.size() - most);
  return text;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::vector<int64_t> shapeOf(const ShaleParameter &parameter) {
  return {parameter.dims, parameter.dims + parameter.rank};
}

/// Calls `use` with each file of a model folder that describes the model.
template <typename Use> void eachModelFile(const std::string &folder, Use use) {
  std::error_code error;
  for (const std::string &name : listFolder(folder))
    if (describesModel(name) && std::filesystem::is_regular_file(folder + "/" + name, error))
      use(openInFolder(folder, name), name);
}

/// The names of a program's tensors, and the prefix by which a file's names differ from them.
/// Hugging Face's libraries write the names of a model with a head with a prefix for what is
/// below the head, "transformer.h.0..", and those of the model alone without it.
class Names {
public:
  explicit Names(const ShaleProgram &program) : weights(parameterNames(program)) {
    for (int k = 0; k < program.kept_count; ++k)
      kept.insert(program.kept[k].name);
  }

  /// Chooses the prefix with which the program has most of the file's names.
  void fit(const std::vector<std::string> &names) {
    std::map<std::pair<bool, std::string>, size_t> found; // (added, prefix): names
    std::set<std::string> unknown;
    for (const std::string &name : names)
      if (!has(name)) {
        unknown.insert(name);
        eachPrefix(name, [&](size_t n) {
          if (has(name.substr(n)))
            ++found[{false, name.substr(0, n)}];
        });
      }
    auto add = [&](const std::string &own) {
      eachPrefix(own, [&](size_t n) {
        if (unknown.count(own.substr(n)))
          ++found[{true, own.substr(0, n)}];
      });
    };
    for (const auto &[name, parameter] : weights)
      add(name);
    for (const std::string &name : kept)
      add(name);
    size_t most = 0;
    for (const auto &[candidate, count] : found)
      if (count > most) {
        most = count;
        std::tie(added, prefix) = candidate;
      }
  }

  /// Returns a file's name as the program has it; the name itself if the program lacks both.
  std::string own(const std::string &name) const {
    if (prefix.empty() || has(name))
      return name;
    bool begins = name.compare(0, prefix.size(), prefix) == 0;
    std::string other = added ? prefix + name : begins ? name.substr(prefix.size()) : name;
    return has(other) ? other : name;
  }

  bool has(const std::string &name) const { return weights.count(name) || kept.count(name); }
  std::string note() const {
    return prefix.empty() ? ""
                          : "names " + std::string(added ? "without" : "with") + " '" +
                                printable(prefix) + "'";
  }

  const std::map<std::string, int> weights; // parameters, by each of their names
  std::set<std::string> kept;

private:
  /// Calls `use` with the lengths of the first parts of a name, "a." and "a.b." of "a.b.c".
  template <typename Use> static void eachPrefix(const std::string &name, Use use) {
    size_t dot = name.find('.');
    for (int parts = 0; dot != std::string::npos && parts < 8;
         ++parts, dot = name.find('.', dot + 1))
      use(dot + 1);
  }

  std::string prefix;
  bool added = false; // to the file's names; else removed from them
};
} // namespace

GivenWeights::GivenWeights(const ShaleProgram &program, const std::string &source,
                           const std::vector<std::string> &renames) {
  Renames rules(renames); // reports errors in the flag first
  open(source);
  match(program, source, rules);
}

void GivenWeights::open(const std::string &source) {
  const std::string index = "model.safetensors.index.json";
  auto ends = [&](const char *with) {
    size_t n = std::strlen(with);
    return source.size() >= n && source.compare(source.size() - n, n, with) == 0;
  };
  if (isFolder(source)) {
    eachModelFile(source, [](const InputFile &, const std::string &) {}); // that it can be copied
    if (exists(source + "/" + index))
      return openIndex(openInFolder(source, index));
    std::string one = source + "/model.safetensors";
    if (!exists(one))
      fail(SHALE_EXIT_NO_INPUT, "--init: '%s' has neither model.safetensors nor %s%s",
           source.c_str(), index.c_str(),
           exists(source + "/pytorch_model.bin") ? "; save pytorch_model.bin again with "
                                                   "save_pretrained(..., safe_serialization=True)"
                                                 : "");
    files.push_back(std::make_unique<SafetensorsReader>(openInFolder(source, "model.safetensors")));
  } else if (ends(".index.json")) {
    return openIndex(InputFile(source));
  } else {
    if (!exists(source))
      fail(SHALE_EXIT_NO_INPUT, "--init: there is no file or folder '%s'", source.c_str());
    files.push_back(std::make_unique<SafetensorsReader>(source));
  }
  for (const auto &[name, info] : files[0]->tensors())
    all.push_back({&files[0]->file(), info, name, ""});
}

void GivenWeights::openIndex(const InputFile &input) {
  const std::string &path = input.path();
  if (input.size() > indexLimit)
    fail(SHALE_EXIT_DATA, "'%s' has %lld bytes, too many for an index", path.c_str(),
         (long long)input.size());
  std::string text(input.size(), '\0');
  input.readAt(0, text.data(), text.size());
  std::map<std::string, std::string> fileOf;
  try {
    nlohmann::json index = parseJson(text);
    for (const auto &[name, file] : index.at("weight_map").items())
      fileOf[name] = file.get<std::string>();
  } catch (const std::exception &error) {
    fail(SHALE_EXIT_DATA, "'%s' is not an index of safetensors files: %s", path.c_str(),
         printable(error.what()).c_str());
  }
  std::map<std::string, SafetensorsReader *> readers;
  for (const auto &[name, file] : fileOf) {
    if (file.empty() || file[0] == '.' || file.find('/') != std::string::npos)
      fail(SHALE_EXIT_DATA, "'%s' names a file outside its folder: '%s'", path.c_str(),
           printable(file).c_str());
    SafetensorsReader *&reader = readers[file];
    if (!reader) {
      files.push_back(std::make_unique<SafetensorsReader>(openInFolder(parentOf(path), file)));
      reader = files.back().get();
    }
    const TensorInfo *info = reader->find(name);
    if (!info)
      fail(SHALE_EXIT_DATA, "'%s' has no tensor '%s', '%s' says it has",
           reader->file().path().c_str(), printable(name).c_str(), path.c_str());
    all.push_back({&reader->file(), *info, name, ""});
  }
}

void GivenWeights::match(const ShaleProgram &program, const std::string &source,
                         const Renames &renames) {
  Names names(program);
  std::vector<std::string> read;
  for (Tensor &tensor : all) {
    tensor.own = renames.apply(tensor.name);
    if (!tensor.own.empty())
      read.push_back(tensor.own);
  }
  names.fit(read);
  found.resize(program.parameter_count);
  std::vector<std::string> missing, left, masks, other;
  for (Tensor &tensor : all) {
    if (tensor.own.empty())
      continue;
    std::string &name = tensor.own = names.own(tensor.own);
    auto known = names.weights.find(name);
    if (known == names.weights.end() && names.kept.count(name)) {
      beside[name] = tensor;
      continue;
    }
    if (known == names.weights.end() || !isWeight(program, known->second)) {
      (isMask(*tensor.file, tensor.info, tensor.name) ? masks : left).push_back(tensor.name);
      continue;
    }
    const ShaleParameter &parameter = program.parameters[known->second];
    if (tensor.info.shape != shapeOf(parameter)) {
      other.push_back(name + " is " + shapeText(tensor.info.shape) + " there and " +
                      shapeText(shapeOf(parameter)) + " in the program");
      continue;
    }
    Dtype type = static_cast<Dtype>(parameter.type);
    if (isInteger(type) != isInteger(tensor.info.type)) {
      other.push_back(name + " is " + nameOf(tensor.info.type) + " there and " + nameOf(type) +
                      " in the program");
      continue;
    }
    Tensor &place = found[known->second];
    if (!place.file)
      place = tensor;
    else if (place.own == name)
      other.push_back(name + " is defined twice, as " + place.name + " and " + tensor.name);
    else
      tied.emplace_back(place, tensor);
  }
  fitted = names.note();
  if (!masks.empty())
    fitted +=
        std::string(fitted.empty() ? "" : "; ") +
        "left out as masks and position numbers, which the model computes: " + listText(masks, 2);
  for (int p = 0; p < program.parameter_count; ++p) {
    const ShaleParameter &parameter = program.parameters[p];
    if (found[p].file || !isWeight(program, p))
      continue;
    bool listed = std::any_of(other.begin(), other.end(), [&](const auto &text) {
      return text.compare(0, std::strlen(parameter.name) + 1, parameter.name + std::string(" ")) ==
             0;
    });
    if (parameter.buffer)
      buffers.push_back(parameter.name);
    else if (!listed)
      missing.push_back(parameter.name);
  }
  if (missing.empty() && left.empty() && other.empty())
    return;
  std::string text = "'" + source + "' is not the weights of this program's model.";
  if (!missing.empty())
    text += format(" Missing (%zu): ", missing.size()) + listText(missing) + ".";
  if (!left.empty())
    text += format(" Left over (%zu): ", left.size()) + listText(left) + ".";
  if (!other.empty())
    text += format(" Of another shape or type (%zu; nothing is transposed): ", other.size()) +
            listText(other) + ".";
  if (!names.note().empty())
    text += " This is with " + names.note() + ", which fit best.";
  if (!missing.empty() || !left.empty())
    text += " Rename tensors of the file with --init-map OLD=NEW; "
            "'OLD.*=' leaves tensors out";
  fail(SHALE_EXIT_DATA, "%s", text.c_str());
}

void GivenWeights::checkTied() const {
  std::vector<char> x(chunkBytes), y(chunkBytes);
  for (const auto &[first, second] : tied) {
    bool same = first.info.type == second.info.type;
    for (int64_t at = 0; same && at < first.info.bytes; at += chunkBytes) {
      int64_t n = std::min(chunkBytes, first.info.bytes - at);
      first.file->readAt(first.info.offset + at, x.data(), n);
      second.file->readAt(second.info.offset + at, y.data(), n);
      same = std::memcmp(x.data(), y.data(), n) == 0;
    }
    if (!same)
      fail(SHALE_EXIT_DATA,
           "'%s' and '%s' are one tied parameter of the program but hold other "
           "values in '%s': export the model with these weights, or leave one "
           "out with --init-map '%s='",
           printable(first.name).c_str(), printable(second.name).c_str(),
           second.file->path().c_str(), printable(second.name).c_str());
  }
}

bool describesModel(const std::string &name) {
  auto ends = [&](const char *with) {
    size_t n = std::strlen(with);
    return name.size() > n && name.compare(name.size() - n, n, with) == 0;
  };
  return name[0] != '.' &&
         ((ends(".json") && !ends(".index.json")) || ends(".jinja") || ends(".model") ||
          ends(".tiktoken") || name == "merges.txt" || name == "vocab.txt");
}

void copyModelFiles(const std::string &source, const std::string &target) {
  std::error_code error;
  if (!isFolder(source) || std::filesystem::equivalent(source, target, error))
    return;
  eachModelFile(source, [&](const InputFile &file, const std::string &name) {
    copyFile(file, target + "/" + name);
  });
}

} // namespace shale::rt
